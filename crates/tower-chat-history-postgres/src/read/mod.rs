//! Calls that read. Each is one statement, and sees one state of the conversation. Counting is a transaction.

mod count;
mod list;
mod load;
mod page;

use tokio_postgres::Row;

pub(crate) use self::{
    count::{Found, conversations as count_conversations, page as count_page},
    list::{describe, labels, list},
    load::{LoadRequest, load},
    page::page,
};

/// Removes the conversation's own row, which is the one whose first column is null. The others stay in their order.
fn take_head(rows: &mut Vec<Row>) -> Option<Row> {
    let head = rows.iter().position(|row| matches!(row.try_get::<_, Option<i64>>(0), Ok(None)))?;
    Some(rows.remove(head))
}
