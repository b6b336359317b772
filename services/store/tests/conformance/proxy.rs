//! A TCP proxy that can lose a reply: it lets a request through, waits until the server has answered, and cuts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub struct Proxy {
    pub port: u16,
    cut: Arc<AtomicBool>,
}

impl Proxy {
    pub async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let cut = Arc::new(AtomicBool::new(false));
        let armed = cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, server_port, armed.clone()));
            }
        });
        Self { port, cut }
    }

    /// Loses the next reply, once.
    pub fn lose_next_reply(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// Whether the reply that was to be lost is lost.
    pub fn has_bitten(&self) -> bool {
        !self.cut.load(Ordering::SeqCst)
    }
}

async fn relay(client: TcpStream, server_port: u16, cut: Arc<AtomicBool>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let replies = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n) = from_server.read(&mut buffer).await {
            if n == 0 || cut.swap(false, Ordering::SeqCst) || to_client.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! { () = requests => {}, () = replies => {} }
}
