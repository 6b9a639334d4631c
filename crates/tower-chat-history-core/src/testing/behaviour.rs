//! The behaviours as values, for harnesses that make their tests at run time.

use std::{fmt, pin::Pin};

use super::Fixture;

type Run = for<'a> fn(&'a dyn Fixture) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One behaviour of the [suite](super), as a value.
#[derive(Clone, Copy)]
pub struct Behaviour {
    name: &'static str,
    run: Run,
}

impl Behaviour {
    /// Its name, with the group's before it: `append::the_first_append_creates_the_log`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Runs it. The future panics if the store does something else.
    pub async fn run(&self, fixture: &dyn Fixture) {
        (self.run)(fixture).await;
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Behaviour").field(&self.name).finish()
    }
}

macro_rules! list {
    ($($group:ident { $($behaviour:ident)+ })+) => {
        vec![$($(Behaviour {
            name: concat!(stringify!($group), "::", stringify!($behaviour)),
            run: |fixture| Box::pin(super::$group::$behaviour(fixture)),
        }),+),+]
    };
}

/// Every behaviour, for a harness that makes its tests at run time: where they depend on a server, say, that may not be
/// installed. Run each on the store itself and [through an `Arc`](super::ThroughArc), as
/// [`conformance_tests!`](crate::conformance_tests) does.
#[must_use]
pub fn behaviours() -> Vec<Behaviour> {
    crate::__conformance_list! { [list] }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = behaviours().iter().map(Behaviour::name).collect();
        assert_eq!(names.len(), behaviours().len());
        assert!(names.contains("append::the_first_append_creates_the_log"));
    }
}
