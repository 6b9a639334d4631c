//! The limits of bodies.

/// The largest sizes of bodies that the layer reads.
///
/// ```
/// use tower_chat_history::http::HttpLimits;
///
/// let limits = HttpLimits::new().request(8 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// The largest body of a request, in bytes. The default is 32 MiB.
    pub request: usize,
    /// The largest body of a whole response, in bytes. The default is 64 MiB.
    pub response: usize,
    /// The largest event and the largest line of a stream, in bytes. The default is 64 MiB.
    pub event: usize,
}

impl HttpLimits {
    /// Returns the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { request: 32 << 20, response: 64 << 20, event: 64 << 20 }
    }

    /// Sets the largest body of a request, in bytes. The default is 32 MiB. A larger request fails with
    /// [`CallError::TooLarge`](crate::http::CallError::TooLarge) before the store and the model are called.
    ///
    /// A body is read into memory. One with a million messages takes ten times its size or more, and seconds of a
    /// thread for blocking work. Other calls do not wait for that thread, but planning such a call also takes some
    /// tenths of a second of the runtime's thread. If the senders are not trusted, set a limit that fits the model: a
    /// window of 200,000 tokens has about 1 MB of text.
    #[must_use]
    pub const fn request(mut self, bytes: usize) -> Self {
        self.request = bytes;
        self
    }

    /// Sets the largest body of a whole response, in bytes. The default is 64 MiB. A larger response is passed on
    /// unchanged, and nothing is stored.
    #[must_use]
    pub const fn response(mut self, bytes: usize) -> Self {
        self.response = bytes;
        self
    }

    /// Sets the largest event and the largest line of a stream, in bytes. The default is 64 MiB. A stream with a larger
    /// one is passed on unchanged, and its reply counts as interrupted.
    #[must_use]
    pub const fn event(mut self, bytes: usize) -> Self {
        self.event = bytes;
        self
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self::new()
    }
}
