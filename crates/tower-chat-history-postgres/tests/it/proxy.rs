//! A connection to the server that counts round trips, and can lose and hold messages.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{
            AtomicIsize, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use tempfile::TempDir;
use test_servers::postgres;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

const SOCKET: &str = ".s.PGSQL.5432";

/// A socket that passes connections on to the shared server.
pub(crate) struct Proxy {
    directory: TempDir,
    wire: Arc<Wire>,
}

#[derive(Debug)]
struct Wire {
    server: PathBuf,
    /// The number of messages after which the client waits for an answer.
    trips: AtomicUsize,
    /// The answer to lose, counted from 1 for the next one. 0 and below for none.
    lost: AtomicIsize,
    /// The answer from which on all are held forever while connections stay open, counted like `lost`.
    frozen: AtomicIsize,
    /// The number of transactions whose begin is refused, as a standby would do.
    refused: AtomicUsize,
    held: watch::Sender<Hold>,
}

/// The state of a request that is held on its way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    No,
    /// The next request with this text is held.
    Next(&'static str),
    /// A request is held.
    Held,
    /// The request is passed on to the server.
    Released,
    /// The server has answered the request.
    Answered,
}

/// The answer of a standby to "begin read write", without its length.
const REFUSED: &[u8] = b"SERROR\0VERROR\0C0A000\0Mno\0\0";

impl Proxy {
    /// Starts a proxy in front of the shared server.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let server = postgres::shared().directory().join(SOCKET);
        let wire = Arc::new(Wire {
            server,
            trips: AtomicUsize::new(0),
            lost: AtomicIsize::new(0),
            frozen: AtomicIsize::new(0),
            refused: AtomicUsize::new(0),
            held: watch::Sender::new(Hold::No),
        });
        let each = Arc::clone(&wire);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let wire = Arc::clone(&each);
                // A connection that ends is no error.
                tokio::spawn(async move { drop(wire.carry(client).await) });
            }
        });
        Self { directory, wire }
    }

    /// Returns the URL of the shared server through this proxy.
    pub(crate) fn url(&self, url: &str) -> String {
        let path = |path: &Path| path.display().to_string().replace('/', "%2F");
        url.replace(&path(postgres::shared().directory()), &path(self.directory.path()))
    }

    /// Returns the number of round trips that began since the last call of this.
    pub(crate) fn trips(&self) -> usize {
        self.wire.trips.swap(0, Relaxed)
    }

    /// Loses the answer to a request, and its connection: 1 for the next request, 2 for the one after it. The
    /// server has executed the request.
    pub(crate) fn lose(&self, nth: isize) {
        self.wire.lost.store(nth, SeqCst);
    }

    /// Holds every answer from the `nth` one on (1 for the next). With 0, no further answer is held.
    pub(crate) fn freeze(&self, nth: isize) {
        self.wire.frozen.store(nth, SeqCst);
    }

    /// Refuses the begin of the next transactions, as if the server were a standby.
    pub(crate) fn refuse_to_begin(&self, transactions: usize) {
        self.wire.refused.store(transactions, SeqCst);
    }

    /// Holds the next request that contains the text, like a network that delivers late. Its client may
    /// leave.
    pub(crate) fn hold(&self, text: &'static str) {
        self.wire.held.send_replace(Hold::Next(text));
    }

    /// Waits until a request is held.
    pub(crate) async fn has_held(&self) {
        self.wire.held.subscribe().wait_for(|held| *held == Hold::Held).await.unwrap();
    }

    /// Delivers the held request and waits until the server has answered it. The answer is dropped.
    pub(crate) async fn release(&self) {
        self.wire.held.send_replace(Hold::Released);
        self.wire.held.subscribe().wait_for(|held| *held == Hold::Answered).await.unwrap();
    }

    /// Returns true if the answer that was to be lost is lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.wire.lost.load(SeqCst) <= 0
    }
}

impl Wire {
    async fn carry(&self, client: UnixStream) -> io::Result<()> {
        let server = UnixStream::connect(&self.server).await?;
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        // When one direction ends, both are dropped.
        tokio::select! {
            done = self.requests(from_client, to_server) => done,
            done = self.answers(from_server, to_client) => done,
        }
    }

    async fn requests(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        // The first message has no type byte.
        let first = body(&mut from).await?;
        to.write_all(&first).await?;
        loop {
            let kind = from.read_u8().await?;
            let message = body(&mut from).await?;
            if matches!(kind, b'S' | b'Q') {
                self.trips.fetch_add(1, Relaxed);
            }
            let is_next = |held: &mut Hold| {
                let next =
                    matches!(held, Hold::Next(text) if message.windows(text.len()).any(|part| part == text.as_bytes()));
                if next {
                    *held = Hold::Held;
                }
                next
            };
            if self.held.send_if_modified(is_next) {
                self.held.subscribe().wait_for(|held| *held == Hold::Released).await.unwrap();
                return self.deliver(kind, message, from, to).await;
            }
            to.write_all(&[&[kind], &message[..]].concat()).await?;
        }
    }

    /// Delivers the rest of a held request.
    async fn deliver(
        &self,
        mut kind: u8,
        mut message: Vec<u8>,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
    ) -> io::Result<()> {
        loop {
            to.write_all(&[&[kind], &message[..]].concat()).await?;
            if matches!(kind, b'S' | b'Q') {
                self.held.subscribe().wait_for(|held| *held == Hold::Answered).await.unwrap();
                return Ok(());
            }
            kind = from.read_u8().await?;
            message = body(&mut from).await?;
        }
    }

    async fn answers(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        loop {
            let mut kind = from.read_u8().await?;
            let mut message = body(&mut from).await?;
            if kind == b'C' && message.ends_with(b"BEGIN\0") && self.refused.load(SeqCst) > 0 {
                self.refused.fetch_sub(1, SeqCst);
                let length = u32::try_from(REFUSED.len() + 4).unwrap();
                (kind, message) = (b'E', [&length.to_be_bytes(), REFUSED].concat());
            }
            if self.frozen.load(SeqCst) == 1 {
                continue;
            }
            // "Ready for query" ends an answer.
            let ends = kind == b'Z';
            if *self.held.borrow() == Hold::Released {
                if ends {
                    self.held.send_replace(Hold::Answered);
                }
                continue;
            }
            if self.lost.load(SeqCst) == 1 {
                if ends {
                    self.lost.store(0, SeqCst);
                    return Ok(());
                }
                continue;
            }
            for counter in [&self.lost, &self.frozen] {
                if ends && counter.load(SeqCst) > 1 {
                    counter.fetch_sub(1, SeqCst);
                }
            }
            to.write_all(&[&[kind], &message[..]].concat()).await?;
        }
    }
}

/// Reads a message without its type: its length, which includes itself, and its content.
async fn body(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut message = length.to_be_bytes().to_vec();
    message.resize(length as usize, 0);
    from.read_exact(&mut message[4..]).await?;
    Ok(message)
}
