"""The benchmark of joins of streams: ours beside DataFusion's, long ones, and as-of joins beside the batch join."""
