//! A few multiplexed connections, to a server or to a cluster, behind a bounded window. They never send a call twice by
//! themselves: whether to try again is decided elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::io::tcp::TcpSettings;
use redis::{Client, Cmd, IntoConnectionInfo, RedisResult, Value};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::config::{RedisConfig, Server};
use crate::stats::count;
use crate::{Error, Stats};

/// How long connecting may take before a call fails.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    /// Taken in turn: nothing depends on the order of two calls in flight.
    links: Vec<Link>,
    next: AtomicUsize,
    window: Semaphore,
}

enum Link {
    Single(ConnectionManager),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Connects once, so that a wrong address shows at start. A connection that is lost later is made anew by the next
    /// call.
    pub async fn open(config: &RedisConfig) -> Result<Self, Error> {
        let links = try_join_all((0..config.connections).map(|_| Link::open(config))).await?;
        Ok(Self { links, next: AtomicUsize::new(0), window: Semaphore::new(config.window) })
    }

    /// Sends one command when the window has room for it. A reply that is an error is an `Err`.
    pub async fn send(&self, command: &Cmd, stats: &Stats) -> RedisResult<Value> {
        let _permit = self.enter(stats).await;
        match self.link() {
            Link::Single(manager) => command.query_async(&mut manager.clone()).await,
            Link::Cluster(cluster) => command.query_async(&mut cluster.clone()).await,
        }
    }

    /// Sends one command to every server that may hold data, and answers what each said.
    pub async fn send_to_all(&self, command: &Cmd, stats: &Stats) -> RedisResult<Vec<Value>> {
        let _permit = self.enter(stats).await;
        match self.link() {
            Link::Single(manager) => Ok(vec![command.query_async(&mut manager.clone()).await?]),
            Link::Cluster(cluster) => {
                let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let reply = cluster.clone().route_command(command.clone(), everywhere).await?;
                let nodes = redis::from_redis_value::<Vec<(Value, Value)>>(reply)?;
                Ok(nodes.into_iter().map(|(_, reply)| reply).collect())
            }
        }
    }

    fn link(&self) -> &Link {
        &self.links[self.next.fetch_add(1, Ordering::Relaxed) % self.links.len()]
    }

    async fn enter(&self, stats: &Stats) -> SemaphorePermit<'_> {
        if let Ok(permit) = self.window.try_acquire() {
            return permit;
        }
        count(&stats.window_waits, 1);
        self.window.acquire().await.expect("the window is never closed")
    }
}

impl Link {
    async fn open(config: &RedisConfig) -> Result<Self, Error> {
        Ok(match config.server() {
            Server::Single(url) => Self::Single(single(&url, config).await?),
            Server::Cluster(urls) => Self::Cluster(cluster(urls, config).await?),
        })
    }
}

async fn single(url: &str, config: &RedisConfig) -> Result<ConnectionManager, Error> {
    let info = url.into_connection_info()?;
    let client = Client::open(info.set_tcp_settings(tcp(config)))?;
    let settings = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(config.response_timeout()))
        .set_pipeline_buffer_size(config.window);
    Ok(ConnectionManager::new_with_config(client, settings).await?)
}

async fn cluster(urls: Vec<String>, config: &RedisConfig) -> Result<ClusterConnection, Error> {
    // With retries the library would send a commit again whose reply was lost, and report the conflict with itself.
    let client = ClusterClientBuilder::new(urls)
        .retries(0)
        .connection_timeout(CONNECT_TIMEOUT)
        .response_timeout(config.response_timeout())
        .tcp_settings(tcp(config))
        .build()?;
    Ok(client.get_async_connection().await?)
}

/// No delay, because every call waits for its answer; and a peer that vanished is noticed while data is unanswered.
fn tcp(config: &RedisConfig) -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(config.response_timeout());
    settings
}
