//! The search for secrets in bytes, in the forms in which a store or a library could write them.

use std::{fs, path::Path};

/// A word that occurs nowhere else. Each secret begins with it and ends with the name of its place.
pub(super) const WORD: &str = "Zx7SecretOfNemo";

/// Returns the secret of a place.
pub(crate) fn secret(place: &str) -> String {
    format!("{WORD}-{place}")
}

/// The form of a text in bytes.
type Form = (&'static str, fn(&str) -> Vec<u8>);

/// The forms that are searched for.
const FORMS: [Form; 6] = [
    ("as it is", |word| word.as_bytes().to_vec()),
    ("in lower case", |word| word.to_lowercase().into_bytes()),
    // The first byte of the next character, or of this one, is left out, so this finds both orders of bytes.
    ("in UTF-16", |word| {
        let wide: Vec<u8> = word.encode_utf16().flat_map(u16::to_le_bytes).collect();
        wide[..wide.len() - 1].to_vec()
    }),
    ("in hexadecimal digits", |word| word.bytes().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()),
    ("in capital hexadecimal digits", |word| {
        word.bytes().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect()
    }),
    ("in escapes of JSON", |word| word.bytes().flat_map(|byte| format!("\\u{byte:04x}").into_bytes()).collect()),
];

/// Returns the forms of secrets in some bytes, each with the bytes after it, which say its place.
pub(crate) fn secrets_in(bytes: &[u8]) -> Vec<String> {
    let needles: Vec<(&str, Vec<u8>)> = FORMS.iter().map(|(name, form)| (*name, form(WORD))).collect();
    let mut begins = [false; 256];
    needles.iter().for_each(|(_, needle)| begins[usize::from(needle[0])] = true);
    let mut found = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        if !begins[usize::from(*byte)] {
            continue;
        }
        for (name, needle) in &needles {
            if bytes[at..].starts_with(needle) {
                let end = (at + needle.len() + 20).min(bytes.len());
                let after = String::from_utf8_lossy(&bytes[at + needle.len()..end]);
                let place: String =
                    after.chars().take_while(|letter| letter.is_ascii_alphabetic() || *letter == '-').collect();
                found.push(format!("{name}: {}", place.trim_start_matches('-')));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the secrets in all files of a directory and of its directories. Each result names the file.
pub(super) fn secrets_in_files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    read_files(directory, |name, bytes| {
        found.extend(secrets_in(bytes).iter().map(|secret| format!("{name}: {secret}")));
    });
    found
}

/// Reads all files of a directory and of its directories, with their names.
pub(crate) fn read_files(directory: &Path, mut each: impl FnMut(&str, &[u8])) {
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        // A server removes files at any time.
        for entry in fs::read_dir(next).into_iter().flatten().filter_map(Result::ok) {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    let name = entry.file_name().display().to_string();
                    each(&name, &fs::read(entry.path()).unwrap_or_default());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_secret_is_found_in_each_form() {
    let text = |order: fn(u16) -> [u8; 2]| secret("id").encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let hexadecimal: String = secret("id").bytes().map(|byte| format!("{byte:02x}")).collect();
    let escaped: String = secret("id").bytes().map(|byte| format!("\\u{byte:04x}")).collect();
    for bytes in [
        format!("x{} y", secret("id")).into_bytes(),
        secret("id").to_lowercase().into_bytes(),
        text(u16::to_le_bytes),
        text(u16::to_be_bytes),
        hexadecimal.to_uppercase().into_bytes(),
        hexadecimal.into_bytes(),
        escaped.into_bytes(),
    ] {
        assert_eq!(secrets_in(&bytes).len(), 1, "{}", String::from_utf8_lossy(&bytes));
    }
    assert_eq!(secrets_in(&secret("id").as_bytes()[1..]), [""; 0]);
}
