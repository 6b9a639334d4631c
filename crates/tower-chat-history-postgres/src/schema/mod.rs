//! What is in the database, and bringing it up to date.

use tokio_postgres::types::Type;

use crate::{
    OpenError, PostgresError,
    database::{Database, Defaults, Lease},
    error::Failure,
    sql::{Statement, in_schema},
};

/// The step to each schema version from the one before, and the oldest version whose library can use the outcome. Databases with
/// these versions are out there: a step is never changed, only followed by another one. A step leaves in place what the older
/// library calls, since replicas are replaced one by one, and an older one may be started again meanwhile.
const MIGRATIONS: [(&str, i32); 1] = [(include_str!("schema-1.sql"), 1)];

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // A handful.
const NEWEST: i32 = MIGRATIONS.len() as i32;

/// The list of versions. Each migration adds a row.
const VERSIONS: &str = "create table @.schema_version (\
    version int primary key, readable_from int not null, migrated_at timestamptz not null default now())";

/// Set in a transaction here: names without a schema are PostgreSQL's own, whatever the role's settings are.
const OWN_NAMES: &str = "set local search_path = pg_catalog";

/// What is found before anything is changed.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing { schema: bool },
    Version(i32),
}

/// Runs the steps that the database lacks, all or none, and finds out what its settings are. Any number of replicas may do so at
/// once: one does, the others wait. Where nothing is to be done, nothing is locked, and no right is needed but to read the list
/// of versions.
pub(crate) async fn migrate(database: &mut Database) -> Result<(), OpenError> {
    let mut retry = database.retry();
    loop {
        match try_migrate(database).await {
            Err(OpenError::Postgres(error)) => retry.again(error.into(), &database.pool).await.map_err(opening)?,
            done => return done,
        }
    }
}

/// A failure while opening. There is nothing that must not be done twice.
fn opening(failure: Failure) -> OpenError {
    match failure {
        Failure::Postgres(error) => error.into(),
        Failure::Store(_) => PostgresError::Connection { source: None }.into(),
    }
}

async fn try_migrate(database: &mut Database) -> Result<(), OpenError> {
    let mut transaction = begin(database).await?;
    let found = look(database, &mut transaction).await;
    transaction.rollback().await;
    let (found, defaults) = found?;
    database.defaults = defaults;
    if matches!(found, Found::Version(version) if version >= NEWEST) {
        return Ok(());
    }
    let mut transaction = begin(database).await?;
    match within(database, &mut transaction).await {
        Ok(()) => transaction.commit().await.map_err(opening),
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

async fn begin(database: &Database) -> Result<Lease, PostgresError> {
    let mut lease = database.lease().await?;
    lease.begin(&format!("{}; {OWN_NAMES}", database.defaults.begin())).await?;
    Ok(lease)
}

async fn within(database: &Database, transaction: &mut Lease) -> Result<(), OpenError> {
    // One migration at a time in this schema. The lock ends with the transaction, also behind a pooler.
    let lock = statement("select pg_advisory_xact_lock(hashtextextended($1, 0))", &[Type::TEXT]);
    transaction.query(&lock, &[&format!("tower-chat-history {}", database.schema)]).await?;
    // Another replica may have done it while this one waited.
    let version = match look(database, transaction).await?.0 {
        Found::Version(version) => version,
        Found::Nothing { schema } => {
            if !schema {
                transaction.batch(&format!("create schema \"{}\"", database.schema)).await?;
            }
            transaction.batch(&in_schema(VERSIONS, &database.schema)).await?;
            0
        }
    };
    let insert = in_schema("insert into @.schema_version (version, readable_from) values ($1, $2)", &database.schema);
    for ((step, readable_from), number) in MIGRATIONS.iter().zip(1..).filter(|(_, number)| *number > version) {
        transaction.batch(&in_schema(step, &database.schema)).await?;
        transaction.query(&statement(&insert, &[Type::INT4, Type::INT4]), &[&number, readable_from]).await?;
    }
    Ok(())
}

/// What the database has, and what a transaction in it is like.
async fn look(database: &Database, transaction: &mut Lease) -> Result<(Found, Defaults), OpenError> {
    let schema = &database.schema;
    // The catalog itself is asked. What `to_regclass` and its like found once they may go on saying within a transaction, and
    // another replica may have made the schema while this one waited.
    let look = statement(
        "select current_setting('server_encoding'), \
         exists (select from pg_catalog.pg_namespace where nspname = $1), \
         exists (select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'schema_version'), \
         exists (select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'conversation'), \
         current_setting('default_transaction_isolation') <> 'read committed', \
         current_setting('default_transaction_read_only')::bool",
        &[Type::TEXT],
    );
    let rows = transaction.query(&look, &[schema]).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    let column = |number: usize| row.try_get::<_, bool>(number).map_err(PostgresError::from);
    let encoding: String = row.try_get(0).map_err(PostgresError::from)?;
    if encoding != "UTF8" {
        return Err(OpenError::Encoding { encoding });
    }
    let defaults = Defaults { isolated: column(4)?, read_only: column(5)? };
    if !column(2)? {
        return if column(3)? {
            Err(OpenError::Foreign)
        } else {
            Ok((Found::Nothing { schema: column(1)? }, defaults))
        };
    }
    let newest = "select version, readable_from from @.schema_version order by version desc limit 1";
    let rows = transaction.query(&statement(&in_schema(newest, schema), &[]), &[]).await?;
    let (found, readable_from) = match rows.first() {
        Some(row) => (row.try_get(0).map_err(PostgresError::from)?, row.try_get(1).map_err(PostgresError::from)?),
        None => (0, 0),
    };
    if readable_from > NEWEST {
        return Err(OpenError::NewerSchema { found, known: NEWEST });
    }
    Ok((Found::Version(found), defaults))
}

fn statement(text: &str, types: &[Type]) -> Statement {
    Statement { text: text.into(), types: types.into() }
}
