//! The closed loop against the peer: one kept connection per invocation in flight, latency from the request to its whole
//! answer. Plain HTTP/1.1 by hand, so that the load costs the peer as little CPU as may be.
//!
//! usage: load HOST:PORT PATH CONCURRENCY SECS WARMUP_SECS; prints one JSON line.

use std::io::{Error, ErrorKind};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Failed = Box<dyn std::error::Error>;

#[derive(Clone)]
struct Target {
    host: String,
    path: String,
}

/// What one connection has seen within the measured time.
#[derive(Default)]
struct Seen {
    latencies_ms: Vec<f64>,
    errors: u64,
    last_error: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, path, concurrency, secs, warm_up] = arguments.as_slice() else {
        return Err("usage: load HOST:PORT PATH CONCURRENCY SECS WARMUP_SECS".into());
    };
    let target = Target { host: host.clone(), path: path.clone() };
    let (concurrency, secs): (usize, f64) = (concurrency.parse()?, secs.parse()?);
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let from = Instant::now() + Duration::from_secs_f64(warm_up.parse()?);
    let to = from + Duration::from_secs_f64(secs);
    let workers: Vec<_> = (0..concurrency)
        .map(|number| tokio::spawn(work(target.clone(), format!("{:x}-{number}", since_epoch.as_nanos()), from, to)))
        .collect();
    let mut all = Seen::default();
    for worker in workers {
        let seen = worker.await??;
        all.latencies_ms.extend(seen.latencies_ms);
        all.errors += seen.errors;
        all.last_error = seen.last_error.or(all.last_error);
    }
    if let Some(error) = &all.last_error {
        eprintln!("load: {} errors, the last: {error}", all.errors);
    }
    let mut sorted = all.latencies_ms;
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted.get((sorted.len().saturating_sub(1) as f64 * part).round() as usize).copied();
    let rounded = |value: f64| (value * 1_000.0).round() / 1_000.0;
    let line = serde_json::json!({
        "concurrency": concurrency,
        "per_s": rounded(sorted.len() as f64 / secs),
        "p50_ms": rounded(at(0.5).unwrap_or(0.0)),
        "p99_ms": rounded(at(0.99).unwrap_or(0.0)),
        "errors": all.errors,
    });
    println!("{line}");
    Ok(())
}

async fn work(target: Target, name: String, from: Instant, to: Instant) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut stream = connect(&target.host).await?;
    let mut buffer = Vec::with_capacity(8_192);
    let mut number = 0_u64;
    while Instant::now() < to {
        number += 1;
        let started = Instant::now();
        match ask(&mut stream, &mut buffer, &target, &format!("{name}-{number}")).await {
            Ok(200) => {
                let now = Instant::now();
                if now >= from && now < to {
                    seen.latencies_ms.push(now.duration_since(started).as_secs_f64() * 1e3);
                }
            }
            Ok(status) => {
                seen.errors += 1;
                seen.last_error = Some(format!("{status} {}", String::from_utf8_lossy(&buffer)));
            }
            Err(error) => {
                seen.errors += 1;
                seen.last_error = Some(error.to_string());
                stream = connect(&target.host).await?;
            }
        }
    }
    Ok(seen)
}

async fn connect(host: &str) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One request and its whole answer. The status.
async fn ask(stream: &mut TcpStream, buffer: &mut Vec<u8>, target: &Target, id: &str) -> Result<u16, Error> {
    let Target { host, path } = target;
    let body = format!("{{\"id\":\"{id}\"}}");
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\naccept: application/json\r\n\
         idempotency-key: {id}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    buffer.clear();
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, buffer).await?;
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).to_ascii_lowercase();
    let status = head.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    match head.lines().find_map(|line| line.strip_prefix("content-length:")) {
        Some(length) => {
            let length: usize = length.trim().parse().map_err(|_| Error::from(ErrorKind::InvalidData))?;
            while buffer.len() < head_end + length {
                more(stream, buffer).await?;
            }
        }
        // Chunked: the last chunk is empty.
        None => {
            while !buffer[head_end - 4..].ends_with(b"0\r\n\r\n") {
                more(stream, buffer).await?;
            }
        }
    }
    Ok(status)
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(), Error> {
    match stream.read_buf(buffer).await? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
