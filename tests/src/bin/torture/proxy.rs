//! The network between workers and server: it delays what passes, cuts connections, and swallows answers.

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

use crate::chance::Chance;

/// How often something goes wrong: once in so many pieces that pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// A request is cut off, or an answer swallowed.
    pub(crate) cut: u64,
    /// Either comes late.
    pub(crate) delay: u64,
}

/// The longest delay.
const LATE: Duration = Duration::from_millis(100);
/// What is passed on at once, in bytes.
const PIECE: usize = 64 << 10;

/// What was done to the connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) connections: u64,
    /// Cut before a request was through: the server got a part of it, or nothing.
    pub(crate) cuts: u64,
    /// Cut after the server had answered: the client never hears it.
    pub(crate) swallowed: u64,
    pub(crate) delays: u64,
}

#[derive(Debug, Default)]
struct Shared {
    connections: AtomicU64,
    cuts: AtomicU64,
    swallowed: AtomicU64,
    delays: AtomicU64,
    is_calm: AtomicBool,
}

/// A proxy on a free port of the loopback interface, in front of a server's socket.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    pub(crate) fn start(server: PathBuf, rates: Rates, mut chance: Chance, runtime: &Runtime) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let of_connections = Arc::clone(&shared);
        runtime.spawn(async move {
            // A client that is gone before it was accepted is no reason to end.
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                let (server, shared, chance) = (server.clone(), Arc::clone(&of_connections), chance.fork());
                tokio::spawn(async move { connection(client, &server, rates, &shared, chance).await });
            }
        });
        Self { address, shared }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on everything passes as it is.
    pub(crate) fn calm(&self) {
        self.shared.is_calm.store(true, Relaxed);
    }

    pub(crate) fn faults(&self) -> Faults {
        let Shared { connections, cuts, swallowed, delays, .. } = &*self.shared;
        Faults {
            connections: connections.load(Relaxed),
            cuts: cuts.load(Relaxed),
            swallowed: swallowed.load(Relaxed),
            delays: delays.load(Relaxed),
        }
    }
}

/// Passes on what both ends say until one of them ends, or the connection is cut: then both ends see it closed.
async fn connection(
    client: TcpStream,
    server: &Path,
    rates: Rates,
    shared: &Shared,
    mut chance: Chance,
) -> io::Result<()> {
    // A server that is down closes its door at once, and so does this one.
    let server = UnixStream::connect(server).await?;
    shared.connections.fetch_add(1, Relaxed);
    client.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut requests = Pipe { from: from_client, to: to_server, rates, shared, chance: chance.fork() };
    let mut answers = Pipe { from: from_server, to: to_client, rates, shared, chance };
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
    chance: Chance,
}

impl Sum for Faults {
    fn sum<I: Iterator<Item = Self>>(faults: I) -> Self {
        faults.fold(Self::default(), |sum, more| Self {
            connections: sum.connections + more.connections,
            cuts: sum.cuts + more.cuts,
            swallowed: sum.swallowed + more.swallowed,
            delays: sum.delays + more.delays,
        })
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Pipe<'_, R, W> {
    async fn pass(&mut self, direction: Direction) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
        loop {
            let read = self.from.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            let piece = &buffer[..read];
            if self.shared.is_calm.load(Relaxed) {
                self.to.write_all(piece).await?;
                continue;
            }
            if self.chance.once_in(self.rates.delay) {
                self.shared.delays.fetch_add(1, Relaxed);
                tokio::time::sleep(self.chance.time(LATE)).await;
            }
            match direction {
                Direction::Requests if self.chance.once_in(self.rates.cut) => {
                    self.shared.cuts.fetch_add(1, Relaxed);
                    // A part of it comes through.
                    let part = &piece[..self.chance.index(read)];
                    return self.to.write_all(part).await;
                }
                Direction::Answers if self.chance.once_in(self.rates.cut) => {
                    self.shared.swallowed.fetch_add(1, Relaxed);
                    return Ok(());
                }
                Direction::Requests | Direction::Answers => self.to.write_all(piece).await?,
            }
        }
    }
}
