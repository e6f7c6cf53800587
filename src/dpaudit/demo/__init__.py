"""What `make demo` audits: small mechanisms on pictures of digits, honest and broken."""
