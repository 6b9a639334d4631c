//! Vectors of one byte a number.

/// A vector of length 1, as bytes with a common scale.
///
/// `Debug` shows the dimension only.
#[derive(Clone, PartialEq)]
pub struct Vector {
    scale: f32,
    values: Vec<i8>,
}

impl Vector {
    /// Scales a vector to the length 1 and rounds its numbers to one of 255 levels.
    ///
    /// Returns `None` if it has no direction: no numbers, only zeros, or a number that is not finite.
    #[must_use]
    pub fn new(numbers: &[f32]) -> Option<Self> {
        let length = numbers.iter().map(|&number| f64::from(number) * f64::from(number)).sum::<f64>().sqrt();
        let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        if !(length.is_finite() && largest > 0.0) || numbers.iter().any(|number| !number.is_finite()) {
            return None;
        }
        let level = |number: &f32| (f64::from(*number) / f64::from(largest) * 127.0).round() as i8;
        Some(Self { scale: (f64::from(largest) / length / 127.0) as f32, values: numbers.iter().map(level).collect() })
    }

    /// Returns the number of its numbers.
    #[must_use]
    pub const fn dimension(&self) -> usize {
        self.values.len()
    }

    /// Returns the cosine of the angle to another vector, within about 0.01. Returns `None` if the dimensions differ.
    ///
    /// The sum is made of whole numbers, so it is the same on every machine.
    #[must_use]
    pub fn cosine(&self, other: &Self) -> Option<f64> {
        if self.dimension() != other.dimension() {
            return None;
        }
        let products = self.values.iter().zip(&other.values).map(|(&a, &b)| i64::from(i32::from(a) * i32::from(b)));
        Some(products.sum::<i64>() as f64 * f64::from(self.scale) * f64::from(other.scale))
    }

    /// Returns the scale and the levels.
    pub(super) fn parts(&self) -> (f32, &[i8]) {
        (self.scale, &self.values)
    }

    /// Creates the vector of a scale and levels. Returns `None` for a scale that no vector has.
    pub(super) fn from_parts(scale: f32, values: Vec<i8>) -> Option<Self> {
        (scale.is_finite() && scale >= 0.0).then_some(Self { scale, values })
    }
}

impl std::fmt::Debug for Vector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vector").field("dimension", &self.dimension()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vectors_without_direction_are_refused() {
        for numbers in [&[][..], &[0.0, 0.0], &[1.0, f32::NAN], &[f32::INFINITY]] {
            assert!(Vector::new(numbers).is_none(), "{numbers:?}");
        }
        assert!(Vector::new(&[f32::MAX, f32::MAX]).is_some() && Vector::new(&[f32::MIN_POSITIVE]).is_some());
        assert_eq!(Vector::new(&[1.0]).and_then(|a| a.cosine(&Vector::new(&[1.0, 0.0])?)), None);
    }

    proptest! {
        #[test]
        fn the_cosine_is_close(pairs in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 2..400)) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            if let (Some(x), Some(y)) = (Vector::new(&a), Vector::new(&b)) {
                let exact = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
                let found = x.cosine(&y).unwrap();
                prop_assert!((found - exact).abs() < 0.02, "{found} {exact}");
                prop_assert_eq!(y.cosine(&x), Some(found));
                prop_assert!((x.cosine(&x).unwrap() - 1.0).abs() < 0.02);
            }
        }
    }
}
