//! Splitting texts among requests, because OpenAI limits their size.

/// The most texts of a request.
const MAX_TEXTS: usize = 2_048;
/// The most bytes of the texts of a request. OpenAI allows 300,000 tokens, and no token is shorter than a byte.
const MAX_BYTES: usize = 300_000;

/// Splits texts into requests, in order. A text that is too long has a request of its own.
pub(super) fn split(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut requests: Vec<Vec<String>> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        match requests.last_mut() {
            Some(request) if request.len() < MAX_TEXTS && text.len() <= MAX_BYTES - bytes.min(MAX_BYTES) => {
                bytes += text.len();
                request.push(text);
            }
            _ => {
                bytes = text.len();
                requests.push(vec![text]);
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(texts: &[usize]) -> Vec<Vec<usize>> {
        let requests = split(texts.iter().map(|bytes| "a".repeat(*bytes)).collect());
        requests.iter().map(|request| request.iter().map(String::len).collect()).collect()
    }

    #[test]
    fn requests_have_a_limit_of_bytes_and_of_texts() {
        assert_eq!(sizes(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(sizes(&[1, 2]), [[1, 2]]);
        assert_eq!(sizes(&[100_000, 200_000, 1]), [&[100_000, 200_000][..], &[1]]);
        assert_eq!(sizes(&[1, 300_001, 1, 2]), [&[1][..], &[300_001], &[1, 2]]);
        let many: Vec<usize> = sizes(&[1; 5_000]).iter().map(Vec::len).collect();
        assert_eq!(many, [2_048, 2_048, 904]);
    }
}
