//! The value by which an adapter reads the response of a call.

use std::{
    any::{Any, type_name},
    fmt,
    sync::Arc,
};

/// A value of an adapter's own type, by which it reads the response of a call.
///
/// `open` creates the value, for example from the address of the request, and `read` gets it back in
/// [`CallFacts::read_by`](crate::adapt::CallFacts::read_by). An adapter whose response types tell their kinds needs none.
///
/// ```
/// use tower_chat_history::adapt::ReadBy;
///
/// #[derive(Debug, PartialEq)]
/// enum Format {
///     Chat,
///     Messages,
/// }
///
/// let read_by = ReadBy::new(Format::Messages);
/// assert_eq!(read_by.get(), Some(&Format::Messages));
/// assert_eq!(read_by.get::<u32>(), None);
/// assert_eq!(ReadBy::default().get::<Format>(), None);
/// ```
#[derive(Clone, Default)]
pub struct ReadBy(Option<Value>);

#[derive(Clone)]
struct Value {
    value: Arc<dyn Any + Send + Sync>,
    name: &'static str,
}

impl ReadBy {
    /// Creates a value.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(Some(Value { value: Arc::new(value), name: type_name::<T>() }))
    }

    /// Returns the value, or `None` if there is none, or if it has another type.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_ref()?.value.downcast_ref()
    }
}

impl fmt::Debug for ReadBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadBy").field(&self.0.as_ref().map(|value| value.name)).finish()
    }
}
