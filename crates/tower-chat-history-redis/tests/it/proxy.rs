//! A network between store and server that can be told what to do to the connections.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use test_servers::redis::Server;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
};

/// A proxy in front of a server, on a free port of the loopback interface. It ends with the test's runtime.
pub(crate) struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
}

#[derive(Default)]
struct Network {
    connections: AtomicU64,
    /// Connections up to that number stay open, and nothing passes.
    silent: AtomicU64,
    /// From the first request with this text on nothing passes, on any connection.
    fatal: Mutex<Option<&'static str>>,
    /// The first answer with this text does not come through: its connection is closed instead.
    lost: Mutex<Option<&'static str>>,
    /// What a client said last.
    said: Mutex<Vec<u8>>,
}

impl Proxy {
    pub(crate) async fn start(server: &Server) -> Self {
        let socket = PathBuf::from(server.url().trim_start_matches("unix://"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let network = Arc::new(Network::default());
        let shared = Arc::clone(&network);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (socket, network) = (socket.clone(), Arc::clone(&shared));
                let number = network.connections.fetch_add(1, Relaxed) + 1;
                tokio::spawn(async move { network.connection(number, client, &socket).await });
            }
        });
        Self { address, network }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.network.connections.load(Relaxed)
    }

    /// Lets nothing pass any more on the connections that there are.
    pub(crate) fn silence(&self) {
        self.network.silent.store(self.connections(), Relaxed);
    }

    /// The same, also on those that there will be.
    pub(crate) fn silence_all(&self) {
        self.network.silent.store(u64::MAX, Relaxed);
    }

    /// Lets nothing pass any more from the first request on that has this text in it.
    pub(crate) fn silence_from(&self, text: &'static str) {
        *self.network.fatal.lock().unwrap() = Some(text);
    }

    /// Loses the next answer that has this text in it.
    pub(crate) fn lose(&self, text: &'static str) {
        *self.network.lost.lock().unwrap() = Some(text);
    }

    /// Says once more to the server what a client said last, and waits until it has answered.
    pub(crate) async fn repeat(&self, server: &Server) {
        let said = self.network.said.lock().unwrap().clone();
        let mut server = UnixStream::connect(server.url().trim_start_matches("unix://")).await.unwrap();
        server.write_all(&said).await.unwrap();
        assert!(server.read(&mut [0; 4_096]).await.unwrap() > 0);
    }

    /// Returns whether that answer came, and was lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.network.lost.lock().unwrap().is_none()
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

impl Network {
    fn is_silent(&self, number: u64) -> bool {
        number <= self.silent.load(Relaxed)
    }

    fn hears(&self, request: &[u8]) {
        request.clone_into(&mut self.said.lock().unwrap());
        if self.fatal.lock().unwrap().is_some_and(|text| has(request, text)) {
            self.silent.store(u64::MAX, Relaxed);
        }
    }

    fn loses(&self, answer: &[u8]) -> bool {
        let mut lost = self.lost.lock().unwrap();
        let is_it = lost.is_some_and(|text| has(answer, text));
        if is_it {
            *lost = None;
        }
        is_it
    }

    /// Passes on what both ends say, until one of them ends.
    async fn connection(&self, number: u64, client: TcpStream, server: &Path) {
        let Ok(server) = UnixStream::connect(server).await else { return };
        client.set_nodelay(true).unwrap();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), server.into_split());
        let requests = async {
            let mut piece = vec![0; 64 << 10];
            while let Ok(read @ 1..) = from_client.read(&mut piece).await {
                self.hears(&piece[..read]);
                if !self.is_silent(number) && to_server.write_all(&piece[..read]).await.is_err() {
                    return;
                }
            }
        };
        let answers = async {
            let mut piece = vec![0; 64 << 10];
            while let Ok(read @ 1..) = from_server.read(&mut piece).await {
                let answer = &piece[..read];
                if self.loses(answer) || (!self.is_silent(number) && to_client.write_all(answer).await.is_err()) {
                    return;
                }
            }
        };
        tokio::select! {
            () = requests => {}
            () = answers => {}
        }
    }
}
