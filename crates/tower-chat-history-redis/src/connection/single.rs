//! A connection to a single server.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::{
    Client, Cmd, RedisError,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tokio::time::Instant;

use super::{MAX_PAUSE, Sending, Transport};
use crate::error::Failure;

/// A connection to a single server.
///
/// redis-rs reconnects if a connection breaks. This type replaces a connection that redis-rs would keep, in three
/// cases: responses time out but the connection does not break, the server is no longer a master, or redis-rs has given
/// up reconnecting, for example while a password is changed.
pub(super) struct Single {
    client: Client,
    config: ConnectionManagerConfig,
    current: Mutex<Current>,
}

struct Current {
    manager: ConnectionManager,
    /// The number of the connection. Many calls notice a broken connection at once, and only one of them replaces it.
    number: u64,
    /// The time at which it replaced another connection.
    since: Option<Instant>,
}

impl Single {
    pub(super) const fn new(client: Client, config: ConnectionManagerConfig, manager: ConnectionManager) -> Self {
        Self { client, config, current: Mutex::new(Current { manager, number: 0, since: None }) }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces a connection, unless another call already has, or the connection is new. The address is resolved again.
    ///
    /// The first call that uses the new connection establishes it. Calls on the old one keep it until they end.
    fn replace(&self, number: u64) {
        let mut current = self.current();
        if current.number != number || current.since.is_some_and(|since| since.elapsed() < MAX_PAUSE) {
            return;
        }
        if let Ok(manager) = ConnectionManager::new_lazy_with_config(self.client.clone(), self.config.clone()) {
            *current = Current { manager, number: number + 1, since: Some(Instant::now()) };
        }
    }
}

impl Transport for Single {
    fn send_to_masters<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        self.send(command)
    }

    fn send<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        let (mut manager, number) = {
            let current = self.current();
            (current.manager.clone(), current.number)
        };
        Box::pin(async move {
            let answer = command.query_async(&mut manager).await;
            if answer.as_ref().is_err_and(|error: &RedisError| Failure(error.clone()).suggests_reconnect()) {
                self.replace(number);
            }
            answer
        })
    }
}
