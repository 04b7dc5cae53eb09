"""Once-runs of the project shop by selector, each hour, and then a check of how fresh
its tables are."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

PROJECT = "/srv/shop"
PROGRAM = "/srv/shop/.venv/bin/lakesql"

WRONG = 2
"""The exit code where the project, the target or the command line is wrong: it would be
at the next try. A catalog, a storage or a broker that does not answer is none of these,
and may answer then."""


class Lakesql(BaseOperator):
    """A command of lakesql in the project's folder. Whatever else than success it ends
    with is retried, but `WRONG`."""

    template_fields = ("arguments",)

    def __init__(
        self,
        *,
        arguments: list[str],
        program: str = PROGRAM,
        project: str = PROJECT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.arguments = arguments
        self.program = program
        self.project = project
        self.hook = SubprocessHook()

    def execute(self, context: Any) -> None:
        """Run the command; its lines are the task's log."""
        code = self.hook.run_command(
            [self.program, *self.arguments], cwd=self.project
        ).exit_code
        said = f"lakesql {' '.join(self.arguments)} ended with exit code {code}"
        if code == WRONG:
            raise AirflowFailException(said)
        if code != 0:
            raise AirflowException(said)

    def on_kill(self) -> None:
        """Let the run finish its batches: it ends within 30 seconds, and loses nothing
        where it is killed before."""
        self.hook.send_sigterm()


with DAG(
    dag_id="shop",
    schedule="5 * * * *",
    start_date=datetime(2026, 1, 1),
    # a run takes whatever has arrived: hours that were missed need none of their own
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 2,
        "retry_delay": timedelta(minutes=5),
        "retry_exponential_backoff": 2.0,
        "execution_timeout": timedelta(minutes=50),
    },
    tags=["lakesql"],
) as dag:
    common = ["--target", "prod", "--log-format", "json"]
    tables = Lakesql(
        task_id="tables",
        arguments=["run", "--once", "--exclude", "tag:report", *common],
    )
    reports = Lakesql(
        task_id="reports",
        arguments=["run", "--once", "--select", "tag:report", *common],
    )
    # Also where a run has failed: its tables get old. A limit that is exceeded is
    # exceeded at the next try, too.
    freshness = Lakesql(
        task_id="freshness",
        arguments=["freshness", *common],
        trigger_rule="all_done",
        retries=0,
    )
    tables >> reports >> freshness
