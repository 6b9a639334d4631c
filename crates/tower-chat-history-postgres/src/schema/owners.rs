//! Whom the schema and what the store uses in it belong to.
//!
//! The owner of a schema may drop the functions in it and make others, and these run with the rights of whoever calls
//! them. So a schema that is there already is used only where its owner is trusted with that.

use tokio_postgres::types::Type;

use super::statement;
use crate::{
    database::{Database, Lease},
    error::{OpenError, PostgresError},
    sql::{FUNCTIONS, Function, types},
};

/// The first of schema, tables and functions whose owner is not trusted: what it is if it is not the schema, and the
/// owner.
///
/// Trusted are the current role and those that it is a member of, superusers, whom nothing is withheld from anyway, and
/// the role that is named. (`pg_has_role` is not asked: it says of a superuser that it is a member of every role.) What
/// belongs to `pg_database_owner` belongs to the database's owner. Functions of the same names with other parameters
/// are not looked at: they are not called.
const UNTRUSTED_OWNER: &str = "
    with recursive mine (role) as (
        select r.oid from pg_catalog.pg_roles r where r.rolname = current_user
        union select m.roleid from pg_catalog.pg_auth_members m join mine on m.member = mine.role
    ), things (number, object, namespace, owner) as (
        select 0, null::text, n.oid, n.nspowner from pg_catalog.pg_namespace n
        union all
        select 1, 'the table ' || c.relname, c.relnamespace, c.relowner from pg_catalog.pg_class c
            where c.relname in ('schema_version', 'conversation', 'exchange', 'compaction')
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

/// A function as the catalog has it: its name and the numbers of its parameters' types.
fn signature((name, letters): Function) -> String {
    types(letters).iter().fold(name.to_owned(), |signature, parameter| format!("{signature} {}", parameter.oid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_told_by_its_parameters() {
        assert_eq!(signature(("delete_1", "tu")), "delete_1 25 2950");
    }
}
