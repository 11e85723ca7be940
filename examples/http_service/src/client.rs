//! As much of HTTP/1.1 as the clients and the service need: GET on a connection that stays open.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// What a server answered.
#[derive(Debug, Default)]
pub struct Response {
    pub status: u16,
    /// `None` if it says nothing of the kind: a "not modified" may leave them as they are.
    pub terms: Option<Terms>,
    pub etag: Option<String>,
    pub body: Vec<u8>,
}

/// What `Cache-Control` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Whether the response is only for the request that asked for it. It is not kept then.
    pub is_for_one: bool,
    /// Zero if the response is not to be kept.
    pub max_age: Duration,
    /// How much longer it may be used while it is revalidated.
    pub while_revalidate: Duration,
    /// How much longer it may be used if that fails.
    pub if_error: Duration,
}

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks for a page, or whether the one with this tag is still the same.
    pub async fn get(&mut self, path: &str, known: Option<&str>) -> Result<Response> {
        let condition = known.map_or(String::new(), |tag| format!("If-None-Match: {tag}\r\n"));
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{condition}\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        let line = self.line().await?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next());
        let status = status.and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("{path}: no answer: {line:?}"))?;

        let mut response = Response { status, ..Response::default() };
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                // "Not modified" may say how long the page is, and has no body.
                "content-length" if status != 304 => response.body = vec![0; value.parse()?],
                "cache-control" => read_terms(value, response.terms.get_or_insert_default()),
                "etag" => response.etag = Some(value.to_owned()),
                _ => {}
            }
        }
        self.stream.read_exact(&mut response.body).await?;
        Ok(response)
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}

/// One request on a connection of its own.
pub async fn get(address: SocketAddr, path: &str, known: Option<&str>) -> Result<Response> {
    let mut client = Client::connect(address).await.context("no connection")?;
    client.get(path, known).await
}

/// A response is kept for a year at most. So no sum of times overflows.
const MAX_SECONDS: u64 = 31_536_000;

/// Reads one `Cache-Control` line. (It is not all of RFC 9111: the upstream here sends no more.)
fn read_terms(cache_control: &str, terms: &mut Terms) {
    for directive in cache_control.split(',') {
        let directive = directive.trim().to_ascii_lowercase();
        let (name, seconds) = directive.split_once('=').unwrap_or((&directive, ""));
        let seconds: u64 = seconds.trim_matches('"').parse().unwrap_or(0);
        let time = Duration::from_secs(seconds.min(MAX_SECONDS));
        match name {
            "no-store" | "no-cache" | "private" => terms.is_for_one = true,
            "max-age" => terms.max_age = time,
            "stale-while-revalidate" => terms.while_revalidate = time,
            "stale-if-error" => terms.if_error = time,
            _ => {}
        }
    }
    if terms.is_for_one {
        *terms = Terms { is_for_one: true, ..Terms::default() };
    }
}
