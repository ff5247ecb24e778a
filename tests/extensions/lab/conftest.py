from tests.report.conftest import valid_run

__all__ = ["valid_run"]
