//! A test of each behaviour in the list.

/// Makes a test of each behaviour of the [conformance suite](crate::testing), for the attribute and the fixture given.
///
/// The fixture is an expression, evaluated anew in each test, within its async function: it may `.await`, and it may
/// `return` to skip. The tests are in two modules, `store` and `through_arc`; to test several stores in one file, put each
/// into a module of its own. The [suite's documentation](crate::testing) has an example.
#[macro_export]
macro_rules! conformance_tests {
    ($(#[$attribute:meta])+ $fixture:expr $(,)?) => {
        mod store {
            use super::*;
            $crate::__conformance_list! { [$crate::__conformance_groups] [$(#[$attribute])+] [$fixture] }
        }
        mod through_arc {
            use super::*;
            $crate::__conformance_list! {
                [$crate::__conformance_groups] [$(#[$attribute])+] [$crate::testing::ThroughArc($fixture)]
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_groups {
    ($attributes:tt $fixture:tt $($group:ident { $($behaviour:ident)+ })+) => {
        $(mod $group {
            use super::*;
            $($crate::__conformance_test! { $attributes $fixture $group $behaviour })+
        })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test {
    ([$(#[$attribute:meta])+] [$fixture:expr] $group:ident $behaviour:ident) => {
        $(#[$attribute])+
        async fn $behaviour() {
            let fixture = $fixture;
            $crate::testing::$group::$behaviour(&fixture).await;
        }
    };
}
