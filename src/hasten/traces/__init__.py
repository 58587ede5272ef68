"""What platform tools record (Perfetto, atrace, perf, py-spy, Instruments), read into one record. Runs nothing."""
