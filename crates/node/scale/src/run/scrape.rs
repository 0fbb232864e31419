//! Reads the metrics of replicas: bounded in time and size, without following redirects.
use crate::limits::METRICS_TIME_MAX;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use scale_rules::limits::METRICS_BYTES_MAX;
use scale_rules::replicas::{Sample, parse};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The counters of one replica.
///
/// # Errors
/// There is no answer in time, it is too large, or it is not metrics.
pub async fn scrape(address: SocketAddr) -> Result<Sample, String> {
    scrape_within(address, METRICS_TIME_MAX).await
}

async fn scrape_within(address: SocketAddr, time_max: Duration) -> Result<Sample, String> {
    let told = |why: &dyn std::fmt::Display| format!("metrics of {address}: {why}");
    let text = timeout(time_max, fetch(address)).await;
    let text = text.map_err(|_| told(&format_args!("no answer within {time_max:?}")))?;
    parse(&text.map_err(|why| told(&why))?).map_err(|why| told(&why))
}

async fn fetch(address: SocketAddr) -> Result<String, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| told(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| told(&error))?;
    let request = Request::get("/metrics")
        .header(HOST, address.to_string())
        .header(ACCEPT, "text/plain;version=0.0.4")
        .body(Empty::<Bytes>::new())
        .map_err(|error| told(&error))?;
    let read = async {
        let response = sender.send_request(request).await.map_err(|error| told(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("HTTP {}, expected 200", response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), METRICS_BYTES_MAX).collect().await;
        let body = body.map_err(|error| told(&error))?.to_bytes();
        String::from_utf8(body.into()).map_err(|error| told(&error))
    };
    // A server may close the connection before the body is read here, so that end is ignored: the
    // request ends with the body or with the error.
    let connection = async {
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        read = read => read,
        never = connection => never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_api::lying::block;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// A server that answers one request with these bytes, again and again.
    async fn server(head: &'static str, piece: &'static str, times: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ = stream.write_all(head.as_bytes()).await;
            for _ in 0..times {
                if stream.write_all(piece.as_bytes()).await.is_err() {
                    break;
                }
            }
        });
        address
    }

    #[test]
    fn metrics_are_read() {
        block(async {
            let body = "coredns_dns_requests_total 7\n";
            let address = server("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", body, 1).await;
            let sample = scrape_within(address, Duration::from_secs(60)).await;
            assert_eq!(sample.map(|sample| sample.queries), Ok(7.0));
        });
    }

    #[test]
    fn redirects_large_bodies_and_nonsense_are_refused() {
        const LINE: &str = "x_total 1\nx_total 1\nx_total 1\nx_total 1\nx_total 1\nx_total 1\n";
        block(async {
            for (head, piece, times, expected) in [
                ("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", "", 0, "HTTP 302"),
                ("HTTP/1.1 200 OK\r\n\r\n", LINE, (100 << 20) / LINE.len(), "length limit"),
                (
                    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
                    LINE,
                    9,
                    "reading a body",
                ),
                ("SSH-2.0-x\r\n", "", 0, "invalid HTTP"),
                ("HTTP/1.1 200 OK\r\n\r\n", "<html>", 1, "no counter of queries"),
            ] {
                let address = server(head, piece, times).await;
                // A busy machine reads the first 4 MiB slowly.
                let error = scrape_within(address, Duration::from_secs(60)).await;
                let error = error.expect_err(head);
                assert!(error.contains(expected) && error.contains("metrics of 127"), "{error}");
            }
        });
    }

    #[test]
    fn silent_replica_is_given_up() {
        block(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let error = scrape(address).await.expect_err("silence");
            assert!(error.contains("no answer within 2s"), "{error}");
        });
    }
}
