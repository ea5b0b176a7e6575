"""What serves others: MCP over standard input and output, and over HTTP."""
