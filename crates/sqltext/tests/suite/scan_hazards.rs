//! Cases that break other tools.

use refloat_sqltext::{
    CharsetFamily, ClientCommand, CommentKind, ItemKind, LexMode, ScanError, ScanOptions,
};

use crate::drive::{cuts, cuts_in, error_of, scan, statements};

#[test]
fn statements_end_at_delimiters_outside_of_quotes_and_comments() {
    let text = "SELECT ';', \";\", `;` # ;\n -- ;\n /* ; */ ;SELECT 2;";
    assert_eq!(
        statements(text),
        ["SELECT ';', \";\", `;` # ;\n -- ;\n /* ; */", "SELECT 2"]
    );
}
