//! An API server that answers as a test wants it to: with errors, with silence, or not at all.
use crate::Api;
use kube::{Client, Config};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// What it answers to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A status code, and a body.
    Status(u16, String),
    /// The same, with a line of the head.
    Head(u16, &'static str, String),
    /// The begin of a body that lasts until the streams are ended.
    Stream(String),
    /// A body that is cut off.
    Cut(String),
    /// The begin of a body, then this again and again.
    Endless(String, String),
    /// An answer that is late.
    Late(Duration, Box<Reply>),
    /// Nothing; the connection stays open.
    Silence,
    /// Nothing; the connection is closed.
    Close,
}

/// The server, and the requests that it got: method and path.
pub struct LyingServer {
    pub api: Api,
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    streams: watch::Sender<()>,
}

impl LyingServer {
    /// Serves until the runtime ends; `answer` gets the method with the path, and the body.
    /// Requests of its client may take `time_max`.
    pub async fn start(
        time_max: Duration,
        answer: impl Fn(&str, &str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let (streams, ended) = watch::channel(());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                let mut ended = ended.clone();
                ended.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = one(stream, &seen, &*answer) => {}
                        _ = ended.changed() => {}
                    }
                });
            }
        });
        let config = Config::new(format!("http://{address}").parse().expect("an address"));
        let client = Client::try_from(config).expect("a client");
        Self { api: Api::of(client, time_max), address, requests, streams }
    }

    /// Closes all connections.
    pub fn end_streams(&self) {
        self.streams.send_replace(());
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

async fn one(
    mut stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &(impl Fn(&str, &str) -> Reply + ?Sized),
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let text = loop {
        let mut more = [0; 4_096];
        let length = stream.read(&mut more).await?;
        bytes.extend(&more[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if length == 0 || is_whole(&text) {
            break text;
        }
    };
    if text.is_empty() {
        return Ok(());
    }
    let line: Vec<&str> = text.split(' ').take(2).collect();
    let line = line.join(" ");
    seen.lock().expect("no panic").push(line.clone());
    let head = |code: u16, more: &str| {
        format!(
            "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nConnection: close{more}\r\n\r\n"
        )
    };
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let mut reply = answer(&line, body);
    while let Reply::Late(time, late) = reply {
        sleep(time).await;
        reply = *late;
    }
    match reply {
        Reply::Status(code, body) => {
            let length = format!("\r\nContent-Length: {}", body.len());
            stream.write_all((head(code, &length) + &body).as_bytes()).await
        }
        Reply::Head(code, more, body) => {
            let length = format!("\r\nContent-Length: {}\r\n{more}", body.len());
            stream.write_all((head(code, &length) + &body).as_bytes()).await
        }
        Reply::Cut(body) => {
            let length = format!("\r\nContent-Length: {}", body.len() + 1);
            stream.write_all((head(200, &length) + &body).as_bytes()).await
        }
        Reply::Endless(begin, again) => {
            stream.write_all((head(200, "") + &begin).as_bytes()).await?;
            loop {
                stream.write_all(again.as_bytes()).await?;
            }
        }
        Reply::Stream(body) => {
            stream.write_all((head(200, "") + &body).as_bytes()).await?;
            std::future::pending().await
        }
        Reply::Silence | Reply::Late(..) => std::future::pending().await,
        Reply::Close => Ok(()),
    }
}

/// Whether a request has come with all of its body.
fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}

/// Runs a test on a runtime of its own.
pub fn block<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}
