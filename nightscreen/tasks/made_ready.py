"""What a flow run loads on its way, loaded; what every run makes anew, made once.

For the process that runs are forked from (`tasks/warm_process.py`), which imports this. Nothing is
left open that two processes must not share.
"""

from __future__ import annotations

import prefect.flow_engine
import prefect.task_engine
import prefect.utilities.visualization  # noqa: F401
import pyarrow.dataset  # noqa: F401

from nightscreen.policy.engine import close_shared_database
from nightscreen.policy.load import load_policy
from nightscreen.report.page import SCREENING_PAGE, templates

templates().get_template(SCREENING_PAGE)
load_policy()
close_shared_database()
