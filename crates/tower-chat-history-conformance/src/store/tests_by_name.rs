//! A named test for each behavior in the list.

/// Creates a test for each behavior of the [conformance suite](crate::store), with the given attribute and fixture.
///
/// The fixture is an expression. Each test evaluates it again, within an async function, so it may `.await`, and it
/// may `return` to skip the test. The tests are in the module `store`. To test several stores in one file, put each
/// into its own module. The [suite's documentation](crate::store) has an example.
///
/// If the store lacks a [`Capability`](crate::store::Capability), list it after `without: [durable, truncate, prune,
/// erase, sealed]`. The tests that need it are then ignored. If it is not listed, they fail, so that no test passes
/// without testing anything.
#[macro_export]
macro_rules! conformance_tests {
    ($(#[$attribute:meta])+ $fixture:expr $(, without: [$($lacking:ident),* $(,)?])? $(,)?) => {
        mod store {
            use super::*;
            $crate::__conformance_list! {
                [$crate::__conformance_groups] [$(#[$attribute])+] [$fixture] [$($($lacking)*)?]
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

/// Creates a test that is ignored if the store lacks one of the needed abilities. For each needed ability, it walks
/// the list of those that the store lacks.
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
    ([erase] $also:tt [erase $($left:ident)*] $lacking:tt $($test:tt)+) => {
        $crate::__conformance_test! { [#[ignore = "the store neither lists nor erases"]] $($test)+ }
    };
    ([sealed] $also:tt [sealed $($left:ident)*] $lacking:tt $($test:tt)+) => {
        $crate::__conformance_test! { [#[ignore = "the store refuses encrypted exchanges"]] $($test)+ }
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
            $crate::store::$group::$behavior(&fixture).await;
        }
    };
}
