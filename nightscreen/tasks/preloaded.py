"""What a run loads besides its flow: who imports this module beforehand, lets runs begin at once.

Nothing here holds state that processes must not share, so they may be forked from one that has it.
"""

from __future__ import annotations

import fastapi  # noqa: F401 - loaded for later, as all here
import prefect.flow_engine
import prefect.task_engine
import prefect.utilities.visualization  # noqa: F401
import pyarrow.dataset  # noqa: F401

import nightscreen.runs.finalize  # noqa: F401
from nightscreen.report.page import compile_templates

compile_templates()
