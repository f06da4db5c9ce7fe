//! Session settings that a dump can make, as statements, and how they affect the text that follows.

use refloat_testkit::random::Rng;

#[derive(Debug, Clone, Copy)]
pub enum Setting {
    /// A word of `sql_mode`.
    Mode(&'static str),
    /// A variable and its value, as written in a statement.
    Variable(&'static str, &'static str),
    /// Any other statement.
    Statement(&'static str),
}

use Setting::{Mode, Statement, Variable};

/// Words of `sql_mode` that both vendors have.
const MODES: &[&str] = &[
    "ALLOW_INVALID_DATES",
    "ANSI",
    "ANSI_QUOTES",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "HIGH_NOT_PRECEDENCE",
    "IGNORE_SPACE",
    "NO_AUTO_VALUE_ON_ZERO",
    "NO_BACKSLASH_ESCAPES",
    "NO_DIR_IN_CREATE",
    "NO_ENGINE_SUBSTITUTION",
    "NO_UNSIGNED_SUBTRACTION",
    "NO_ZERO_DATE",
    "NO_ZERO_IN_DATE",
    "ONLY_FULL_GROUP_BY",
    "PAD_CHAR_TO_FULL_LENGTH",
    "PIPES_AS_CONCAT",
    "REAL_AS_FLOAT",
    "STRICT_ALL_TABLES",
    "STRICT_TRANS_TABLES",
    "TRADITIONAL",
];
const MODES_MARIADB: &[&str] = &[
    "DB2",
    "EMPTY_STRING_IS_NULL",
    "IGNORE_BAD_TABLE_OPTIONS",
    "MAXDB",
    "MSSQL",
    "MYSQL323",
    "MYSQL40",
    "NO_AUTO_CREATE_USER",
    "NO_FIELD_OPTIONS",
    "NO_KEY_OPTIONS",
    "NO_TABLE_OPTIONS",
    "ORACLE",
    "POSTGRESQL",
    "SIMULTANEOUS_ASSIGNMENT",
    "TIME_ROUND_FRACTIONAL",
];
const MODES_MYSQL: &[&str] = &["INTERPRET_UTF8_AS_UTF8MB4", "TIME_TRUNCATE_FRACTIONAL"];

/// Variables that both vendors have.
const VARIABLES: &[(&str, &str)] = &[
    ("auto_increment_increment", "7"),
    ("auto_increment_offset", "3"),
    ("autocommit", "1"),
    ("big_tables", "1"),
    ("character_set_client", "latin1"),
    ("character_set_client", "utf8mb3"),
    ("character_set_client", "binary"),
    ("character_set_connection", "latin1"),
    ("character_set_connection", "ucs2"),
    ("character_set_connection", "utf16"),
    ("character_set_database", "latin1"),
    ("character_set_filesystem", "latin1"),
    ("character_set_results", "NULL"),
    ("character_set_results", "latin1"),
    ("character_set_results", "utf16"),
    ("character_set_server", "ucs2"),
    ("collation_connection", "utf8mb4_bin"),
    ("collation_connection", "latin1_german2_ci"),
    ("collation_database", "latin1_german2_ci"),
    ("collation_server", "utf8mb4_bin"),
    ("completion_type", "1"),
    ("default_storage_engine", "MyISAM"),
    ("default_tmp_storage_engine", "MyISAM"),
    ("default_week_format", "3"),
    ("div_precision_increment", "12"),
    ("eq_range_index_dive_limit", "0"),
    ("foreign_key_checks", "0"),
    ("group_concat_max_len", "4"),
    ("innodb_lock_wait_timeout", "1"),
    ("innodb_strict_mode", "0"),
    ("innodb_table_locks", "0"),
    ("insert_id", "500"),
    ("join_buffer_size", "128"),
    ("last_insert_id", "77"),
    ("lc_messages", "de_DE"),
    ("lc_time_names", "de_DE"),
    ("lock_wait_timeout", "1"),
    ("low_priority_updates", "1"),
    ("max_error_count", "0"),
    ("max_join_size", "1"),
    ("max_length_for_sort_data", "4"),
    ("max_seeks_for_key", "1"),
    ("max_sort_length", "8"),
    ("min_examined_row_limit", "100000"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "1"),
    ("net_write_timeout", "1"),
    ("old_alter_table", "1"),
    ("optimizer_prune_level", "0"),
    ("optimizer_switch", "'index_merge=off'"),
    ("optimizer_search_depth", "0"),
    ("profiling", "0"),
    ("query_prealloc_size", "16384"),
    ("rand_seed1", "17"),
    ("rand_seed2", "17"),
    ("range_alloc_block_size", "8192"),
    ("sort_buffer_size", "32768"),
    ("sql_auto_is_null", "1"),
    ("sql_big_selects", "0"),
    ("sql_buffer_result", "1"),
    ("sql_log_off", "1"),
    ("sql_notes", "0"),
    ("sql_quote_show_create", "0"),
    ("sql_safe_updates", "1"),
    ("sql_select_limit", "0"),
    ("sql_select_limit", "1"),
    ("sql_warnings", "1"),
    ("time_zone", "'+05:30'"),
    ("time_zone", "'SYSTEM'"),
    ("timestamp", "1000000000"),
    ("tmp_table_size", "1024"),
    ("transaction_isolation", "'SERIALIZABLE'"),
    ("transaction_isolation", "'READ-UNCOMMITTED'"),
    ("unique_checks", "0"),
    ("wait_timeout", "3000"),
];
const VARIABLES_MARIADB: &[(&str, &str)] = &[
    ("alter_algorithm", "COPY"),
    ("check_constraint_checks", "0"),
    ("column_compression_threshold", "1"),
    ("expensive_subquery_limit", "0"),
    ("explicit_defaults_for_timestamp", "0"),
    ("idle_transaction_timeout", "30"),
    ("in_predicate_conversion_threshold", "2"),
    ("keep_files_on_create", "1"),
    ("log_warnings", "0"),
    ("max_recursive_iterations", "1"),
    ("max_session_mem_used", "100000000"),
    ("max_statement_time", "20"),
    ("note_verbosity", "''"),
    ("old_mode", "'NO_DUP_KEY_WARNINGS_WITH_IGNORE'"),
    ("optimizer_use_condition_selectivity", "1"),
    ("skip_parallel_replication", "1"),
    ("sql_if_exists", "1"),
    ("standard_compliant_cte", "0"),
    ("storage_engine", "MyISAM"),
    ("system_versioning_asof", "'2020-01-01 00:00:00'"),
    ("tx_isolation", "'SERIALIZABLE'"),
    ("updatable_views_with_limit", "NO"),
    ("use_stat_tables", "NEVER"),
];
const VARIABLES_MYSQL: &[(&str, &str)] = &[
    ("cte_max_recursion_depth", "1"),
    ("default_collation_for_utf8mb4", "utf8mb4_general_ci"),
    ("end_markers_in_json", "1"),
    ("explicit_defaults_for_timestamp", "0"),
    ("information_schema_stats_expiry", "0"),
    ("max_execution_time", "20000"),
    ("range_optimizer_max_mem_size", "1"),
    ("session_track_transaction_info", "STATE"),
    ("show_create_table_verbosity", "1"),
    ("show_gipk_in_create_table_and_information_schema", "0"),
    ("sql_generate_invisible_primary_key", "1"),
    ("updatable_views_with_limit", "NO"),
    ("windowing_use_high_precision", "0"),
];

const STATEMENTS: &[&str] = &[
    "SET NAMES utf8",
    "SET NAMES utf8mb3",
    "SET NAMES latin1",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES binary",
    "SET CHARACTER SET utf8mb4",
    "SET CHARACTER SET latin1",
    "SET CHARSET utf8",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET @refloat_a = 5, @@session.sql_notes = 1",
];

/// Variables without a default: there is nothing to restore.
const NO_DEFAULT: &[&str] = &["insert_id", "last_insert_id", "rand_seed1", "rand_seed2"];

/// All settings that a server of this vendor has.
pub fn settings(mariadb: bool) -> Vec<Setting> {
    let (modes, variables) = if mariadb {
        (MODES_MARIADB, VARIABLES_MARIADB)
    } else {
        (MODES_MYSQL, VARIABLES_MYSQL)
    };
    let modes = MODES.iter().chain(modes).map(|word| Mode(word));
    let variables = VARIABLES.iter().chain(variables);
    let variables = variables.map(|(name, value)| Variable(name, value));
    let statements = STATEMENTS.iter().map(|text| Statement(text));
    modes.chain(variables).chain(statements).collect()
}

/// A session: the statements that set it up, and how it reads text.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// In order, without delimiters.
    pub statements: Vec<String>,
    /// Words of `sql_mode`.
    pub modes: Vec<&'static str>,
    /// Statements that restore the original session, in order.
    pub reset: Vec<String>,
}

impl Session {
    /// The session that these settings make, applied in order.
    pub fn of(settings: &[Setting], rng: &mut Rng) -> Self {
        let mut session = Self::default();
        session.reset.push("SET NAMES utf8mb4".to_owned());
        session.reset.push("SET SQL_MODE = DEFAULT".to_owned());
        for setting in settings {
            match setting {
                Mode(word) => session.modes.push(word),
                Variable(name, value) => {
                    let scope = *rng.pick(&["", "SESSION ", "@@session.", "@@"]);
                    session
                        .statements
                        .push(format!("SET {scope}{name} = {value}"));
                    if !NO_DEFAULT.contains(name) {
                        session.reset.push(format!("SET SESSION {name} = DEFAULT"));
                    }
                }
                Statement(text) => session.statements.push((*text).to_owned()),
            }
        }
        // Dump tools set the mode first or not at all; people leave the server's mode.
        if !session.modes.is_empty() || rng.chance(50) {
            let mode = format!("SET SQL_MODE = '{}'", session.modes.join(","));
            session.statements.insert(0, mode);
        }
        session
    }

    fn has(&self, words: &[&str]) -> bool {
        self.modes.iter().any(|mode| words.contains(mode))
    }

    /// Do double quotes enclose names?
    pub fn quotes_names(&self) -> bool {
        self.has(&[
            "ANSI",
            "ANSI_QUOTES",
            "ORACLE",
            "DB2",
            "MAXDB",
            "MSSQL",
            "POSTGRESQL",
        ])
    }
}
