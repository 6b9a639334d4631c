//! The network between workers and server. It delays pieces, cuts connections, and loses answers.

use std::{
    io,
    iter::Sum,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
    runtime::Runtime,
};

use crate::rng::SeededRng;

/// The rates of faults: one in so many pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// A request is cut off, or an answer is lost.
    pub(crate) cut: u64,
    /// A request or an answer is delayed.
    pub(crate) delay: u64,
}

/// The longest delay.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// The size of the buffer, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The numbers of faults so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) connections: u64,
    /// Connections cut in the middle of a request: the server received a part of it, or nothing.
    pub(crate) cuts: u64,
    /// Connections cut after the server had answered: the client never received the answer.
    pub(crate) lost: u64,
    pub(crate) delays: u64,
}

#[derive(Debug, Default)]
struct Shared {
    connections: AtomicU64,
    cuts: AtomicU64,
    lost: AtomicU64,
    delays: AtomicU64,
    faults_stopped: AtomicBool,
}

/// A proxy on a free port of the loopback interface, in front of the socket of a server.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    pub(crate) fn start(server: PathBuf, rates: Rates, mut rng: SeededRng, runtime: &Runtime) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let of_connections = Arc::clone(&shared);
        runtime.spawn(async move {
            // If a client disconnects before it is accepted, the proxy continues.
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                let (server, shared, rng) = (server.clone(), Arc::clone(&of_connections), rng.fork());
                tokio::spawn(async move { connection(client, &server, rates, &shared, rng).await });
            }
        });
        Self { address, shared }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops faults: from now on everything is passed on unchanged.
    pub(crate) fn stop_faults(&self) {
        self.shared.faults_stopped.store(true, Relaxed);
    }

    pub(crate) fn faults(&self) -> Faults {
        let Shared { connections, cuts, lost, delays, .. } = &*self.shared;
        Faults {
            connections: connections.load(Relaxed),
            cuts: cuts.load(Relaxed),
            lost: lost.load(Relaxed),
            delays: delays.load(Relaxed),
        }
    }
}

/// Passes data in both directions, until one side ends or the connection is cut. Then both sides see it
/// closed.
async fn connection(
    client: TcpStream,
    server: &Path,
    rates: Rates,
    shared: &Shared,
    mut rng: SeededRng,
) -> io::Result<()> {
    // If the server is down, the client's connection is closed at once, as the server would do.
    let server = UnixStream::connect(server).await?;
    shared.connections.fetch_add(1, Relaxed);
    client.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut requests = Pipe { from: from_client, to: to_server, rates, shared, rng: rng.fork() };
    let mut answers = Pipe { from: from_server, to: to_client, rates, shared, rng };
    tokio::select! {
        ended = requests.pass(Direction::Requests) => ended,
        ended = answers.pass(Direction::Answers) => ended,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

struct Pipe<'a, R, W> {
    from: R,
    to: W,
    rates: Rates,
    shared: &'a Shared,
    rng: SeededRng,
}

impl Sum for Faults {
    fn sum<I: Iterator<Item = Self>>(faults: I) -> Self {
        faults.fold(Self::default(), |sum, more| Self {
            connections: sum.connections + more.connections,
            cuts: sum.cuts + more.cuts,
            lost: sum.lost + more.lost,
            delays: sum.delays + more.delays,
        })
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Pipe<'_, R, W> {
    async fn pass(&mut self, direction: Direction) -> io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let read = self.from.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            let piece = &buffer[..read];
            if self.shared.faults_stopped.load(Relaxed) {
                self.to.write_all(piece).await?;
                continue;
            }
            if self.rng.once_in(self.rates.delay) {
                self.shared.delays.fetch_add(1, Relaxed);
                tokio::time::sleep(self.rng.duration(MAX_DELAY)).await;
            }
            match direction {
                Direction::Requests if self.rng.once_in(self.rates.cut) => {
                    self.shared.cuts.fetch_add(1, Relaxed);
                    // A part of the request arrives.
                    let part = &piece[..self.rng.index(read)];
                    return self.to.write_all(part).await;
                }
                Direction::Answers if self.rng.once_in(self.rates.cut) => {
                    self.shared.lost.fetch_add(1, Relaxed);
                    return Ok(());
                }
                Direction::Requests | Direction::Answers => self.to.write_all(piece).await?,
            }
        }
    }
}
