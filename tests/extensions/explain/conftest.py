from tests.report.conftest import guilty_run, valid_run

__all__ = ["guilty_run", "valid_run"]
