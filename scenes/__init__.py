"""What a benchmark item is. Knows simulators; has never heard of a metric or a judge."""
