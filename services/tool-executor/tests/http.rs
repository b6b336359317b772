//! The HTTP transport against real sockets: what is certainly not sent, what may have been, and bounded memory.

use std::net::SocketAddr;
use std::time::Duration;

use chassis::registry::Tool;
use protocol::{AttemptId, ErrorClass};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use turnwright_tool_executor::{Answered, Body, HttpTransport, ToolRequest, ToolTransport, Transported};

fn tool(method: &str, address: SocketAddr) -> Tool {
    serde_json::from_value(json!({
        "name": "refund", "arguments": {}, "max_output_bytes": 1_000,
        "run": {"kind": "http", "endpoint": {"method": method, "url": format!("http://{address}/refund?fixed=1")}},
    }))
    .unwrap()
}

async fn call(tool: &Tool, timeout: Duration) -> Transported {
    let arguments = json!({"order": "7 &", "amounts": [1, 2], "none": null});
    let request = ToolRequest {
        tool,
        arguments: &arguments,
        idempotency_key: Some("key-7".into()),
        request_fingerprint: None,
        attempt_id: AttemptId("00000000-0000-0000-0000-000000000001".parse::<protocol::CallId>().unwrap().0),
        timeout,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    };
    HttpTransport::new().unwrap().call(&request).await
}

const LONG: Duration = Duration::from_secs(10);

async fn request_text(socket: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let n = socket.read(&mut bytes).await.unwrap();
        seen.extend_from_slice(&bytes[..n]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        if n == 0 || body.len() >= length.parse().unwrap() {
            return text;
        }
    }
}

/// Serves one connection and answers what the client sent.
async fn serve<F>(answer: impl FnOnce(TcpStream) -> F + Send + 'static) -> (SocketAddr, tokio::task::JoinHandle<String>)
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let text = request_text(&mut socket).await;
        answer(socket).await;
        text
    });
    (address, served)
}

async fn answer_once(text: &'static str) -> (SocketAddr, tokio::task::JoinHandle<String>) {
    serve(move |mut socket| async move { socket.write_all(text.as_bytes()).await.unwrap() }).await
}

#[tokio::test]
async fn an_effect_carries_its_key_and_its_arguments_as_the_body() {
    let (address, served) = answer_once(
        "HTTP/1.1 201 Created\r\ncontent-length: 11\r\neffect-id: e-1\r\nretry-after: 3\r\n\r\n{\"ok\":true}",
    )
    .await;
    let happened = call(&tool("POST", address), LONG).await;
    let body = Body::Whole(br#"{"ok":true}"#.to_vec());
    let expected = Answered { status: 201, body, retry_after_ms: Some(3_000), effect_id: Some("e-1".into()) };
    assert_eq!(happened, Transported::Answered(expected));
    let text = served.await.unwrap();
    assert!(text.starts_with("POST /refund?fixed=1 HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("\r\nidempotency-key: key-7\r\n") && text.contains("\r\ntraceparent: 00-0af7"), "{text}");
    let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body, json!({"order": "7 &", "amounts": [1, 2], "none": null}));
}

#[tokio::test]
async fn a_get_carries_its_arguments_as_the_query() {
    let (address, served) = answer_once("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    assert_eq!(call(&tool("GET", address), LONG).await, Transported::Answered(Answered::new(200, "{}")));
    let text = served.await.unwrap();
    assert!(text.starts_with("GET /refund?fixed=1&"), "{text}");
    assert!(text.contains("order=7+%26") && text.contains("amounts=%5B1%2C2%5D") && !text.contains("none"), "{text}");
}

#[tokio::test]
async fn a_refused_connection_or_an_unknown_host_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let class = ErrorClass::Unavailable;
    assert!(
        matches!(call(&tool("POST", address), LONG).await, Transported::NothingSent { class: c, .. } if c == class)
    );
    let nowhere = serde_json::from_value(json!({
        "name": "refund", "arguments": {},
        "run": {"kind": "http", "endpoint": {"url": "http://does-not-exist.invalid/"}},
    }));
    let happened = call(&nowhere.unwrap(), LONG).await;
    assert!(matches!(happened, Transported::NothingSent { class: c, .. } if c == class), "{happened:?}");
    let broken = serde_json::from_value(json!({
        "name": "refund", "arguments": {}, "run": {"kind": "http", "endpoint": {"url": "no URL"}},
    }));
    assert!(matches!(call(&broken.unwrap(), LONG).await, Transported::NothingSent { class: ErrorClass::Internal, .. }));
}

#[tokio::test]
async fn a_connection_that_closes_after_the_request_is_uncertain() {
    let (address, _served) = serve(|socket| async move { drop(socket) }).await;
    assert!(matches!(call(&tool("POST", address), LONG).await, Transported::Uncertain { .. }));
    let (address, _served) = answer_once("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"effect_id\"").await;
    assert!(matches!(call(&tool("POST", address), LONG).await, Transported::Uncertain { .. }));
}

/// Closes by a reset, whatever is still on its way.
fn reset(socket: TcpStream) {
    socket.set_zero_linger().unwrap();
    drop(socket);
}

#[tokio::test]
async fn a_reset_is_uncertain_whether_or_not_the_request_was_read() {
    let class = ErrorClass::Unavailable;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move { reset(listener.accept().await.unwrap().0) });
    let happened = call(&tool("POST", address), LONG).await;
    assert!(matches!(happened, Transported::Uncertain { class: c, .. } if c == class), "{happened:?}");
    served.await.unwrap();
    let (address, served) = serve(|socket| async move { reset(socket) }).await;
    let happened = call(&tool("POST", address), LONG).await;
    assert!(matches!(happened, Transported::Uncertain { class: c, .. } if c == class), "{happened:?}");
    assert!(served.await.unwrap().contains("idempotency-key: key-7"), "the tool has read it, and may have applied it");
}

#[tokio::test]
async fn an_answer_that_is_cut_in_its_headers_or_in_its_body_is_uncertain() {
    for cut in ["HTTP/1.1 200 O", "HTTP/1.1 200 OK\r\ncontent-le", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"ef"]
    {
        let (address, _served) = answer_once(cut).await;
        let happened = call(&tool("POST", address), LONG).await;
        assert!(matches!(happened, Transported::Uncertain { .. }), "{cut}: {happened:?}");
    }
}

#[tokio::test]
async fn a_tls_handshake_that_fails_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut hello = [0; 4096];
        let n = socket.read(&mut hello).await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        hello[..n].to_vec()
    });
    let secure = serde_json::from_value(json!({
        "name": "refund", "arguments": {}, "run": {"kind": "http", "endpoint": {"url": format!("https://{address}/")}},
    }));
    let happened = call(&secure.unwrap(), LONG).await;
    let class = ErrorClass::Unavailable;
    assert!(matches!(happened, Transported::NothingSent { class: c, .. } if c == class), "{happened:?}");
    let hello = served.await.unwrap();
    assert_eq!(hello.first(), Some(&22), "a handshake was begun");
    assert!(!hello.windows(5).any(|bytes| bytes == b"key-7"), "nothing of the request is in it");
}

#[tokio::test]
async fn a_body_that_drips_more_slowly_than_the_lease_is_uncertain() {
    let (address, served) = serve(|mut socket| async move {
        let mut written = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n").await;
        // Ends only because the client hangs up.
        while written.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
            written = socket.write_all(b" ").await;
        }
    })
    .await;
    let happened = call(&tool("POST", address), Duration::from_millis(200)).await;
    assert!(matches!(happened, Transported::Uncertain { class: ErrorClass::Timeout, .. }), "{happened:?}");
    served.await.unwrap();
}

#[tokio::test]
async fn a_pause_that_a_tool_asks_for_is_bounded_and_dates_are_left_out() {
    for (asked, expected) in
        [("7200", Some(3_600_000)), ("0", Some(0)), ("-1", None), ("Fri, 31 Dec 1999 23:59:59 GMT", None)]
    {
        let (address, _served) = serve(move |mut socket| async move {
            let text = format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: {asked}\r\ncontent-length: 0\r\n\r\n");
            socket.write_all(text.as_bytes()).await.unwrap();
        })
        .await;
        let happened = call(&tool("POST", address), LONG).await;
        let answer = Answered { retry_after_ms: expected, ..Answered::new(429, "") };
        assert_eq!(happened, Transported::Answered(answer), "{asked}");
    }
}

#[tokio::test]
async fn a_tool_that_hangs_is_uncertain_when_the_lease_ends() {
    let (address, _served) = serve(|socket| async move {
        std::future::pending::<()>().await;
        drop(socket);
    })
    .await;
    let happened = call(&tool("POST", address), Duration::from_millis(100)).await;
    assert!(matches!(happened, Transported::Uncertain { class: ErrorClass::Timeout, .. }), "{happened:?}");
    let (address, _served) = serve(|mut socket| async move {
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let happened = call(&tool("POST", address), Duration::from_millis(100)).await;
    assert!(matches!(happened, Transported::Uncertain { class: ErrorClass::Timeout, .. }), "{happened:?}");
}

#[tokio::test]
async fn an_endless_body_is_cut_at_the_limit() {
    let (address, served) = serve(|mut socket| async move {
        let chunk = format!("3e8\r\n{}\r\n", "x".repeat(1_000));
        let mut written = socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        // Ends only because the client hangs up.
        while written.is_ok() {
            written = socket.write_all(chunk.as_bytes()).await;
        }
    })
    .await;
    let happened = call(&tool("POST", address), LONG).await;
    assert_eq!(happened, Transported::Answered(Answered { body: Body::TooLarge, ..Answered::new(200, "") }));
    served.await.unwrap();
}

#[tokio::test]
async fn a_redirect_to_another_host_is_an_answer_and_is_not_followed() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = other.local_addr().unwrap().port();
    let (address, _served) = serve(move |mut socket| async move {
        let text = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://localhost:{port}/\r\ncontent-length: 0\r\n\r\n"
        );
        socket.write_all(text.as_bytes()).await.unwrap();
    })
    .await;
    assert_eq!(call(&tool("POST", address), LONG).await, Transported::Answered(Answered::new(307, "")));
    let followed = futures::FutureExt::now_or_never(other.accept());
    assert!(followed.is_none(), "somebody called the redirect's target");
}
