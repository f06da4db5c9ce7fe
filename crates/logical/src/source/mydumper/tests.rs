use super::*;

const METADATA: &str = "\
# Started dump at: 2026-11-22 06:33:06
[config]
quote-character = BACKTICK

[myloader_session_variables]
SQL_MODE='NO_AUTO_VALUE_ON_ZERO,NO_ZERO_DATE' /*!40101

[`shop`.`items`]
real_table_name=items
rows = 1200
data_checksum = 1234

[`shop`.`mydumper_0`]
real_table_name=o.dd
rows = 3

[`shop`.`v`]
real_table_name=v
rows = 5
is_view = 1
[config]
max-statement-size = 1000
num-sequences = 0
# Finished dump at: 2026-11-22 06:33:07
";

#[test]
fn metadata_of_1_x_counts_rows() {
    let found = parse_metadata(METADATA);
    assert!(found.finished && found.counts);
    let key = |table: &str| ("shop".to_owned(), table.to_owned());
    assert_eq!(found.rows.get(&key("items")), Some(&1200));
    assert_eq!(found.rows.get(&key("v")), None);
    assert_eq!(found.real.get(&key("mydumper_0")).unwrap(), "o.dd");
    assert_eq!(
        found.session[0],
        "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,NO_ZERO_DATE'"
    );
}

#[test]
fn metadata_of_0_10_says_only_that_the_dump_ended() {
    let found = parse_metadata(
        "Started dump at: x\nSHOW MASTER STATUS:\n\tLog: b\n\nFinished dump at: y\n",
    );
    assert!(found.finished && !found.counts && found.rows.is_empty());
    assert!(!parse_metadata("Started dump at: x\n").finished);
}

#[test]
fn nothing_but_words_is_taken_from_metadata() {
    assert_eq!(quoted_words("'A_B,C' /*!40101").as_deref(), Some("A_B,C"));
    for hostile in [
        "A",
        "'A",
        "'A; DROP TABLE t' x",
        "(SELECT 1)",
        "'A''B'C; --",
    ] {
        assert!(
            quoted_words(hostile).is_none_or(|words| words == "A"),
            "{hostile}"
        );
    }
}

#[test]
fn numbers_of_parts_are_no_part_of_the_name() {
    assert_eq!(table_name("items"), "items");
    assert_eq!(table_name("items.00001"), "items");
    assert_eq!(table_name("items.00001.00002"), "items");
    assert_eq!(table_name("a.b.00000"), "a.b");
    assert_eq!(table_name("v1.2"), "v1.2");
}

#[test]
fn the_longest_database_that_fits_is_meant() {
    let names = ["a", "a.b"].map(|name| (name.to_owned(), format!("real {name}")));
    let databases = Databases(names.into_iter().collect());
    let split = |stem: &str| databases.split(stem, Role::Rows);
    assert_eq!(split("a.b.c"), ("a.b".to_owned(), "c".to_owned()));
    assert_eq!(split("a.c.d"), ("a".to_owned(), "c.d".to_owned()));
    assert_eq!(split("x.y"), ("x".to_owned(), "y".to_owned()));
    assert_eq!(databases.real("a.b"), "real a.b");
}
