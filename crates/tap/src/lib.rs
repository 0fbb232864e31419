//! What is shown of single queries: query log, dnstap, hottest names and clients.
#![forbid(unsafe_code)]
