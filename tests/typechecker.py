"""The run-time type and shape checker that the test suite installs over `handful`."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
