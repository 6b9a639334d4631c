//! A test of each behavior in the list.

/// Makes a test of each behavior of the [conformance suite](crate::testing), for the attribute and the fixture given.
///
/// The fixture is an expression, evaluated anew in each test, within its async function: it may `.await`, and it may
/// `return` to skip. The tests are in two modules, `store` and `through_arc`; to test several stores in one file, put each
/// into a module of its own. The [suite's documentation](crate::testing) has an example.
///
/// A store that lacks a [`Capability`](crate::testing::Capability) says so: after `without: [durable, truncate,
/// prune]`, or some of them, the tests that need it are ignored. Without that they fail, so nothing passes that was not
/// tested.
#[macro_export]
macro_rules! conformance_tests {
    ($(#[$attribute:meta])+ $fixture:expr $(, without: [$($lacking:ident),* $(,)?])? $(,)?) => {
        mod store {
            use super::*;
            $crate::__conformance_list! {
                [$crate::__conformance_groups] [$(#[$attribute])+] [$fixture] [$($($lacking)*)?]
            }
        }
        mod through_arc {
            use super::*;
            $crate::__conformance_list! {
                [$crate::__conformance_groups] [$(#[$attribute])+] [$crate::testing::ThroughArc($fixture)]
                [$($($lacking)*)?]
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_groups {
    ($attributes:tt $fixture:tt $lacking:tt $($(#[needs($needs:ident)])? $group:ident $behaviors:tt)+) => {
        $(mod $group {
            use super::*;
            $crate::__conformance_group! { $attributes $fixture $lacking [$($needs)?] $group $behaviors }
        })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_group {
    (
        $attributes:tt $fixture:tt $lacking:tt [$($needs:ident)?] $group:ident
        { $($(#[needs($also:ident)])? $behavior:ident)+ }
    ) => {
        $crate::__conformance_group! {
            @ $attributes $fixture $lacking [$($needs)?] $group { $([$($also)?] $behavior)+ }
        }
    };
    (@ $attributes:tt $fixture:tt $lacking:tt $needs:tt $group:ident { $($also:tt $behavior:ident)+ }) => {
        $($crate::__conformance_needs! { $needs $also $lacking $lacking $attributes $fixture $group $behavior })+
    };
}

/// Makes a test that is ignored if one of the needs is among what the store lacks: for each need it walks the list of
/// those.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_needs {
    ([] [] $left:tt $lacking:tt $($test:tt)+) => {
        $crate::__conformance_test! { [] $($test)+ }
    };
    ([] $also:tt $left:tt $lacking:tt $($test:tt)+) => {
        $crate::__conformance_needs! { $also [] $lacking $lacking $($test)+ }
    };
    ([$need:ident] $also:tt [] $lacking:tt $($test:tt)+) => {
        $crate::__conformance_needs! { [] $also $lacking $lacking $($test)+ }
    };
    ([durable] $also:tt [durable $($left:ident)*] $lacking:tt $($test:tt)+) => {
        $crate::__conformance_test! { [#[ignore = "the store is not durable"]] $($test)+ }
    };
    ([truncate] $also:tt [truncate $($left:ident)*] $lacking:tt $($test:tt)+) => {
        $crate::__conformance_test! { [#[ignore = "the store cannot truncate"]] $($test)+ }
    };
    ([prune] $also:tt [prune $($left:ident)*] $lacking:tt $($test:tt)+) => {
        $crate::__conformance_test! { [#[ignore = "the store cannot prune"]] $($test)+ }
    };
    ($need:tt $also:tt [$other:ident $($left:ident)*] $lacking:tt $($test:tt)+) => {
        $crate::__conformance_needs! { $need $also [$($left)*] $lacking $($test)+ }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test {
    ([$($ignored:tt)*] [$(#[$attribute:meta])+] [$fixture:expr] $group:ident $behavior:ident) => {
        $(#[$attribute])+
        $($ignored)*
        async fn $behavior() {
            let fixture = $fixture;
            $crate::testing::$group::$behavior(&fixture).await;
        }
    };
}
