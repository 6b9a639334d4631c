//! Checking who owns the schema and the store's objects in it.
//!
//! The owner of a schema may replace the functions in it, which run with the rights of the caller. An existing schema
//! is therefore used only if its owner is trusted.

use tokio_postgres::types::Type;

use super::statement;
use crate::{
    database::{Database, Lease},
    error::{OpenError, PostgresError},
    sql::{FUNCTIONS, Function, types},
};

/// Finds the first of schema, tables and functions whose owner is not trusted. Returns the object, or null for the
/// schema, and the owner.
///
/// Trusted are the current role, the roles that it is a member of, superusers, and the named role. `pg_has_role` is not
/// used: it reports that a superuser is a member of every role. Objects of `pg_database_owner` belong to the owner of
/// the database. Functions with the same names and other parameters are ignored: the store does not call them.
const UNTRUSTED_OWNER: &str = "
    with recursive mine (role) as (
        select r.oid from pg_catalog.pg_roles r where r.rolname = current_user
        union select m.roleid from pg_catalog.pg_auth_members m join mine on m.member = mine.role
    ), things (number, object, namespace, owner) as (
        select 0, null::text, n.oid, n.nspowner from pg_catalog.pg_namespace n
        union all
        select 1, 'the table ' || c.relname, c.relnamespace, c.relowner from pg_catalog.pg_class c
            where c.relname in ('schema_version', 'conversation', 'exchange', 'compaction', 'erasure', 'epoch')
        union all
        select 2, 'the function ' || p.proname, p.pronamespace, p.proowner from pg_catalog.pg_proc p
            where p.proname || ' ' || p.proargtypes::text = any ($2)
    )
    select t.object, r.rolname::text
    from things t join pg_catalog.pg_namespace n on n.oid = t.namespace and n.nspname = $1
        join pg_catalog.pg_roles o on o.oid = t.owner
        join pg_catalog.pg_roles r on r.oid = case o.rolname when 'pg_database_owner' then (
            select d.datdba from pg_catalog.pg_database d where d.datname = current_database()
        ) else o.oid end
    where not r.rolsuper and r.oid not in (select role from mine) and r.rolname is distinct from $3
    order by t.number, t.object limit 1";

pub(super) async fn check(database: &Database, transaction: &mut Lease) -> Result<(), OpenError> {
    let (schema, trusted) = (&database.schema, &database.schema_owner);
    let functions = FUNCTIONS.map(signature).to_vec();
    let stranger = statement(UNTRUSTED_OWNER, &[Type::TEXT, Type::TEXT_ARRAY, Type::TEXT]);
    let rows = transaction.query(&stranger, &[schema, &functions, trusted]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let object = row.try_get(0).map_err(PostgresError::from)?;
    let owner = row.try_get(1).map_err(PostgresError::from)?;
    Err(OpenError::Owner { schema: schema.clone(), object, owner })
}

/// Returns a function in the form of the catalog: its name and the numbers of its parameters' types.
fn signature((name, letters): Function) -> String {
    types(letters).iter().fold(name.to_owned(), |signature, parameter| format!("{signature} {}", parameter.oid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_identified_by_its_parameters() {
        assert_eq!(signature(("delete_1", "tu")), "delete_1 25 2950");
    }
}
