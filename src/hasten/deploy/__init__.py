"""For applications: a model or bundle, run in the application's own process, without copies."""
