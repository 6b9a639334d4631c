//! A Redis Cluster of three masters.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    time::{Duration, Instant},
};

use redis::{Client, Connection};

use super::{
    process::{self, Process},
    redis::program,
};

/// How long the nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(60);
const SLOTS: u16 = 16_384;
const NODES: u16 = 3;

/// A cluster of its own, on free ports of the loopback interface. It keeps nothing on disk but its own configuration, and is
/// ended, its directories removed, when this is dropped or the test process ends.
#[derive(Debug)]
pub struct Cluster {
    ports: Vec<u16>,
    _processes: Vec<Process>,
}

impl Cluster {
    /// Starts the nodes, gives each a third of the slots, and waits until all of them say that the cluster is whole.
    ///
    /// # Panics
    ///
    /// If Redis is not installed, or the cluster is not whole within a minute.
    #[must_use]
    pub fn start() -> Self {
        let ports = free_ports();
        let cluster = Self { _processes: ports.iter().map(|port| node(*port)).collect(), ports };
        let mut nodes = cluster.connections();
        for (number, node) in (0..NODES).zip(&mut nodes) {
            let share = SLOTS / NODES;
            let last = if number + 1 == NODES { SLOTS - 1 } else { (number + 1) * share - 1 };
            let mut slots = redis::cmd("CLUSTER");
            slots.arg("ADDSLOTSRANGE").arg(number * share).arg(last);
            slots.query::<()>(node).unwrap();
            // Two nodes that begin at the same epoch would have to settle that first.
            redis::cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(number + 1).query::<()>(node).unwrap();
        }
        for port in &cluster.ports[1..] {
            redis::cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(*port).query::<()>(&mut nodes[0]).unwrap();
        }
        let began = Instant::now();
        while !nodes.iter_mut().all(is_whole) {
            assert!(began.elapsed() < PATIENCE, "the cluster is not whole");
            // The nodes talk to one another, and there is nothing else to wait for.
            std::thread::sleep(Duration::from_millis(20));
        }
        cluster
    }

    /// The addresses of its nodes.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("redis://127.0.0.1:{port}/")).collect()
    }

    /// A connection to each node.
    ///
    /// # Panics
    ///
    /// If one cannot be reached.
    #[must_use]
    pub fn connections(&self) -> Vec<Connection> {
        self.urls().iter().map(|url| Client::open(url.as_str()).unwrap().get_connection().unwrap()).collect()
    }
}

/// Whether a node knows of all others and finds the cluster whole.
fn is_whole(node: &mut Connection) -> bool {
    let info: String = redis::cmd("CLUSTER").arg("INFO").query(node).unwrap();
    info.contains("cluster_state:ok") && info.contains(&format!("cluster_known_nodes:{NODES}"))
}

fn node(port: u16) -> Process {
    let directory = process::directory();
    let mut command = vec![program().unwrap().display().to_string()];
    let (port, dir) = (port.to_string(), directory.display().to_string());
    command.extend(["--port", &port, "--bind", "127.0.0.1", "--dir", &dir, "--daemonize", "no"].map(str::to_owned));
    command.extend(["--save", "", "--appendonly", "no", "--cluster-enabled", "yes"].map(str::to_owned));
    command.extend(["--cluster-node-timeout", "5000", "--cluster-port", "0"].map(str::to_owned));
    Process::start(&command, "KILL", &directory, "eady to accept connections")
}

/// Ports that nobody uses, where the nodes' bus (a port 10,000 higher) is free as well. Another process may take one before its
/// node does; then the node does not start, and says so.
fn free_ports() -> Vec<u16> {
    let mut ports = BTreeSet::new();
    let mut held = Vec::new();
    while ports.len() < usize::from(NODES) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bus = port.checked_add(10_000).map(|bus| TcpListener::bind(("127.0.0.1", bus)));
        if matches!(bus, Some(Ok(_))) {
            ports.insert(port);
        }
        // Held until all are found, or the system might offer the same one again.
        held.push(listener);
        assert!(held.len() < 10_000, "no port has a free one above it");
    }
    ports.into_iter().collect()
}
