//! Work that takes longer on the other nodes than on the one that runs it.

use refloat_wire::Connection;

/// Keeps the other nodes busy applying: without a key, each row is searched for among all rows.
pub fn others_take_long(conn: &mut Connection, rows: u32) {
    for sql in [
        "CREATE TABLE IF NOT EXISTS no_key (v INT)",
        &format!("INSERT INTO no_key SELECT seq FROM seq_1_to_{rows}"),
        "DELETE FROM no_key ORDER BY v DESC",
    ] {
        conn.exec(sql).unwrap();
    }
}
