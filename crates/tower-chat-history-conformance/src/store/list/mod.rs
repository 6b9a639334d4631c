//! The list of all behaviors, and a function that runs them.

mod edit;
mod extra;
mod log;
mod manage;

use super::{Fixture, behaviors};

/// Passes the list of behaviors to another macro, after the macro's own arguments. A group or a behavior may need an
/// optional ability of the store.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $crate::__conformance_log! { { [$($callback)+] $($arguments)* } }
    };
}

/// Ends the list: calls the macro that it is for.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_call {
    ({ [$($callback:tt)+] $($arguments:tt)* } $($listed:tt)*) => {
        $($callback)+! {
            $($arguments)*
            $($listed)*
        }
    };
}

/// Runs every behavior for which the fixture's store has the needed abilities, one after the other. Use it if named
/// tests are not possible. Returns the names of the behaviors that were skipped, because the store lacks a
/// [`Capability`](super::Capability) that they need.
pub async fn all(fixture: &dyn Fixture) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    for behavior in behaviors() {
        if behavior.can_run(fixture).await {
            behavior.run(fixture).await;
        } else {
            left_out.push(behavior.name());
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    macro_rules! names {
        ($($(#[$group_needs:meta])? $group:ident { $($(#[$needs:meta])? $behavior:ident)+ })+) => {
            [$((include_str!(concat!("../", stringify!($group), ".rs")), &[$(stringify!($behavior)),+] as &[&str])),+]
        };
    }

    #[test]
    fn every_behavior_is_listed() {
        let groups = __conformance_list!([names]);
        for (source, listed) in groups {
            let written = source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
            assert_eq!(written.collect::<Vec<_>>(), listed);
        }
    }
}
