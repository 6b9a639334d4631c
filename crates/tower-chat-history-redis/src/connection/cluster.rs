//! A connection to a Cluster.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::{
    Cmd, RedisResult, Value,
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo},
};
use tokio::sync;

use super::{Sending, Transport};
use crate::error::Failure;

/// A connection to a Cluster.
///
/// If a node hangs but its operating system does not, redis-rs keeps the connection to it, also after a replica took
/// its place. So if a response times out, this type sends the command over a new connection, which asks the other nodes
/// for the slots. It keeps the new connection only if there is an answer. Otherwise the old one stays, because it
/// serves calls to other nodes without a wait for the one that hangs.
pub(super) struct Cluster {
    client: ClusterClient,
    current: Mutex<ClusterConnection>,
    /// Locked while a call uses a new connection.
    renewal: sync::Mutex<()>,
}

/// The nodes that get a command.
#[derive(Clone, Copy)]
enum To {
    /// The node that has the keys.
    NodeOfKeys,
    Masters,
}

impl Cluster {
    pub(super) fn new(client: ClusterClient, connection: ClusterConnection) -> Self {
        Self { client, current: Mutex::new(connection), renewal: sync::Mutex::new(()) }
    }

    fn current(&self) -> MutexGuard<'_, ClusterConnection> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, command: &Cmd, to: To) -> RedisResult<Value> {
        let mut connection = self.current().clone();
        let answer = ask_over(&mut connection, command, to).await;
        if answer.as_ref().is_err_and(|error| error.is_timeout())
            && let Some(answer) = self.ask_anew(command, to).await
        {
            return answer;
        }
        answer
    }

    /// Sends a command over a new connection, unless another call does. Returns `None` if there is no answer.
    async fn ask_anew(&self, command: &Cmd, to: To) -> Option<RedisResult<Value>> {
        let _guard = self.renewal.try_lock().ok()?;
        let mut connection = self.client.get_async_connection().await.ok()?;
        let answer = ask_over(&mut connection, command, to).await;
        if answer.as_ref().is_err_and(|error| Failure(error.clone()).is_transient()) {
            return None;
        }
        *self.current() = connection;
        Some(answer)
    }
}

async fn ask_over(connection: &mut ClusterConnection, command: &Cmd, to: To) -> RedisResult<Value> {
    match to {
        To::NodeOfKeys => command.query_async(connection).await,
        To::Masters => {
            let masters = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
            connection.route_command(command.clone(), masters).await
        }
    }
}

impl Transport for Cluster {
    fn send<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        Box::pin(self.ask(command, To::NodeOfKeys))
    }

    fn send_to_masters<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        Box::pin(self.ask(command, To::Masters))
    }
}
