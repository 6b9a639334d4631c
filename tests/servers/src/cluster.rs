//! A Redis Cluster of three masters.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use ::redis::{Client, Connection};

use super::{
    process,
    redis::{self, Server},
};

/// The longest time that the nodes may need to agree.
const PATIENCE: Duration = Duration::from_secs(60);
const SLOTS: u16 = 16_384;
/// The number of nodes of a cluster.
pub const NODES: u16 = 3;

/// A cluster on free ports of the loopback interface. When this is dropped or the test process ends, the
/// cluster is ended and its directories are removed.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// The port at which it listens.
    port: u16,
    /// The port to which it sends clients.
    announced: u16,
    server: Server,
}

impl Cluster {
    /// Starts a cluster that writes nothing to disk but its own configuration.
    ///
    /// # Panics
    ///
    /// If Redis is not installed, or the cluster is not complete within a minute.
    #[must_use]
    pub fn start() -> Self {
        let nodes = free_ports().into_iter().map(|port| {
            // No node is considered down, however busy the machine is.
            let server = Server::with(&settings(&redis::QUICK, port, "60000"));
            Node { port, announced: port, server }
        });
        Self::of(nodes.collect())
    }

    /// Starts a cluster whose nodes write to disk before they answer, and can be crashed. `port_of_proxy`
    /// returns the port of a proxy for the socket of a node, or `None` for a node without a proxy. Nodes send
    /// clients to the ports of the proxies, also after a restart.
    ///
    /// A node that is down is noticed within a second, and the others continue.
    ///
    /// # Panics
    ///
    /// If Redis is not installed, or the cluster is not complete within a minute.
    #[must_use]
    pub fn durable(mut port_of_proxy: impl FnMut(&Path) -> Option<u16>) -> Self {
        let nodes = free_ports().into_iter().map(|port| {
            let directory = process::directory();
            let announced = port_of_proxy(&redis::socket(&directory)).unwrap_or(port);
            let mut settings = settings(&redis::DURABLE, port, "1000");
            let (announced_port, bus) = (announced.to_string(), bus(port).to_string());
            settings.extend(
                ["--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", &announced_port].map(str::to_owned),
            );
            settings.extend(["--cluster-announce-bus-port", &bus].map(str::to_owned));
            settings.extend(["--cluster-require-full-coverage", "no"].map(str::to_owned));
            Node { port, announced, server: Server::within(directory, &settings) }
        });
        Self::of(nodes.collect())
    }

    /// Gives each node a third of the slots, and waits until all nodes see the complete cluster.
    fn of(nodes: Vec<Node>) -> Self {
        let cluster = Self { nodes };
        let mut connections = cluster.connections();
        for (number, node) in (0..NODES).zip(&mut connections) {
            let share = SLOTS / NODES;
            let last = if number + 1 == NODES { SLOTS - 1 } else { (number + 1) * share - 1 };
            let mut slots = ::redis::cmd("CLUSTER");
            slots.arg("ADDSLOTSRANGE").arg(number * share).arg(last);
            slots.query::<()>(node).unwrap();
            // Two nodes with the same epoch would have to resolve that first.
            ::redis::cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(number + 1).query::<()>(node).unwrap();
        }
        for node in &cluster.nodes[1..] {
            let mut meet = ::redis::cmd("CLUSTER");
            meet.arg("MEET").arg("127.0.0.1").arg(node.announced).arg(bus(node.port));
            meet.query::<()>(&mut connections[0]).unwrap();
        }
        cluster.wait_until_complete();
        cluster
    }

    /// Waits until all nodes see the complete cluster. After a restart, that takes some seconds.
    ///
    /// # Panics
    ///
    /// If that takes more than a minute.
    pub fn wait_until_complete(&self) {
        let began = Instant::now();
        let mut nodes = self.connections();
        while !nodes.iter_mut().all(is_complete) {
            assert!(began.elapsed() < PATIENCE, "the cluster is not complete");
            // The nodes send no event to wait for.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills one of the [`NODES`] and restarts it with its data. It serves its slots again some seconds
    /// later.
    ///
    /// # Panics
    ///
    /// If there is no such node, or it does not start.
    pub fn crash_and_restart(&mut self, node: u16) {
        let server = &mut self.nodes[usize::from(node)].server;
        server.crash();
        server.restart();
    }

    /// Makes one of the [`NODES`] hang until it is ended: its operating system accepts connections, but nothing is
    /// answered.
    ///
    /// # Panics
    ///
    /// If there is no such node, or it cannot be stopped.
    pub fn hang(&self, node: u16) {
        let mut connection = self.connections().swap_remove(usize::from(node));
        let info: String = ::redis::cmd("INFO").arg("server").query(&mut connection).unwrap();
        let process = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
        let stopped = Command::new("sh").args(["-c", "kill -STOP \"$1\"", "sh", process.trim()]).status().unwrap();
        assert!(stopped.success());
    }

    /// Returns the URLs of the nodes for clients.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("redis://127.0.0.1:{}/", node.announced)).collect()
    }

    /// Opens a direct connection to each node.
    ///
    /// # Panics
    ///
    /// If a node cannot be reached.
    #[must_use]
    pub fn connections(&self) -> Vec<Connection> {
        let connect = |node: &Node| Client::open(node.server.url()).unwrap().get_connection().unwrap();
        self.nodes.iter().map(connect).collect()
    }
}

/// Returns true if a node knows all others, and sees all slots served.
fn is_complete(node: &mut Connection) -> bool {
    let info: String = ::redis::cmd("CLUSTER").arg("INFO").query(node).unwrap();
    let is_known = info.contains("cluster_state:ok") && info.contains(&format!("cluster_known_nodes:{NODES}"));
    // This number is right only if all slots are assigned, and none of their nodes is considered down.
    is_known && info.contains(&format!("cluster_slots_ok:{SLOTS}"))
}

fn settings(of_data: &[&str], port: u16, node_timeout: &str) -> Vec<String> {
    let port = port.to_string();
    let of_cluster = ["--port", &port, "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", "0"];
    let timeout = ["--cluster-node-timeout", node_timeout];
    of_data.iter().chain(&of_cluster).chain(&timeout).map(|&setting| setting.to_owned()).collect()
}

/// Returns the port at which the node at `port` listens to other nodes.
const fn bus(port: u16) -> u16 {
    port + 10_000
}

/// Returns ports whose bus ports are also free.
fn free_ports() -> Vec<u16> {
    let ports = process::free_ports().filter(|port| process::is_free(bus(*port)));
    let ports: Vec<u16> = ports.take(usize::from(NODES)).collect();
    assert_eq!(ports.len(), usize::from(NODES), "there are no free ports");
    ports
}
