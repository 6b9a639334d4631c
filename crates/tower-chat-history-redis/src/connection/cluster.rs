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
/// its place. So if a response times out, this type sends the command over a new connection, which asks one of the
/// addresses of the store for the slots. It keeps the new connection only if there is an answer. Otherwise the old one
/// stays, because it serves calls to other nodes without a wait for the one that hangs.
///
/// Every command may be sent twice: those of scripts by the rules of `Retry`, and the others change nothing twice.
pub(super) struct Cluster {
    client: ClusterClient,
    current: Mutex<Current>,
    /// Locked while a call makes a new connection. Others that time out wait for it, within their time limits.
    renewal: sync::Mutex<()>,
}

#[derive(Clone)]
struct Current {
    connection: ClusterConnection,
    /// The number of the connection. Many calls time out at once, and only one of them replaces the connection.
    number: u64,
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
        let current = Current { connection, number: 0 };
        Self { client, current: Mutex::new(current), renewal: sync::Mutex::new(()) }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, command: &Cmd, to: To) -> RedisResult<Value> {
        let Current { mut connection, number } = self.current().clone();
        let answer = ask_over(&mut connection, command, to).await;
        if answer.as_ref().is_err_and(|error| error.is_timeout())
            && let Some(answer) = self.ask_anew(command, to, number).await
        {
            return answer;
        }
        answer
    }

    /// Sends a command over another connection than the one with this number: the current one if it was replaced in the
    /// meantime, or a new one. Returns `None` if there is no answer.
    async fn ask_anew(&self, command: &Cmd, to: To, number: u64) -> Option<RedisResult<Value>> {
        let guard = self.renewal.lock().await;
        let mut current = self.current().clone();
        if current.number != number {
            drop(guard);
            return Some(ask_over(&mut current.connection, command, to).await);
        }
        current.connection = self.client.get_async_connection().await.ok()?;
        let answer = ask_over(&mut current.connection, command, to).await;
        if answer.as_ref().is_err_and(|error| Failure(error.clone()).is_transient()) {
            return None;
        }
        *self.current() = Current { number: number + 1, ..current };
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
