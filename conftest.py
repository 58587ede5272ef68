"""Property tests have no deadline: a shared machine now and then takes a second over what takes a millisecond."""

from hypothesis import settings

settings.register_profile("hasten", deadline=None)
settings.load_profile("hasten")
