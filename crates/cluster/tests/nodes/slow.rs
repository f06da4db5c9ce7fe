//! Work that takes the other nodes longer than the one that it is given to.

use refloat_wire::Connection;

/// Has the other nodes apply for a while: without a key each row is looked for among all.
pub fn others_take_long(conn: &mut Connection, rows: u32) {
    for sql in [
        "CREATE TABLE IF NOT EXISTS no_key (v INT)",
        &format!("INSERT INTO no_key SELECT seq FROM seq_1_to_{rows}"),
        "DELETE FROM no_key ORDER BY v DESC",
    ] {
        conn.exec(sql).unwrap();
    }
}
