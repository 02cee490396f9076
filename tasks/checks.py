"""One task for each check: it asks one shard of its lookups.

A task run that is re-entered joins the calls still in flight and pays for nothing answered.
"""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.checks import Check
from steps import asking
from tasks import live
from tasks.edge import guarded


async def _ask(run_id: str, shard: str) -> dict[str, int]:
    return dict(await asking.ask_shard(live.asking_of(run_id), shard))


@task(name="check bank accounts", cache_policy=NO_CACHE, persist_result=False)
@guarded
async def check_bank_accounts(run_id: str, shard: str) -> dict[str, int]:
    """Ask whether accounts exist and whose they are."""
    return await _ask(run_id, shard)


@task(name="check karma", cache_policy=NO_CACHE, persist_result=False)
@guarded
async def check_karma(run_id: str, shard: str) -> dict[str, int]:
    """Ask whether identities are on the blacklist."""
    return await _ask(run_id, shard)


@task(name="check ecosystem", cache_policy=NO_CACHE, persist_result=False)
@guarded
async def check_ecosystem(run_id: str, shard: str) -> dict[str, int]:
    """Ask for histories with other lenders, of those who consented."""
    return await _ask(run_id, shard)


@task(name="check selfies", cache_policy=NO_CACHE, persist_result=False)
@guarded
async def check_selfies(run_id: str, shard: str) -> dict[str, int]:
    """Ask whether photographs match, of those who consented."""
    return await _ask(run_id, shard)


BY_CHECK = {
    Check.BANK_ACCOUNT: check_bank_accounts,
    Check.KARMA: check_karma,
    Check.ECOSYSTEM: check_ecosystem,
    Check.SELFIE: check_selfies,
}
