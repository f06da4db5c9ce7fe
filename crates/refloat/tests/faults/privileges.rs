//! Accounts with limited privileges: what they lack is named before anything is touched, what they
//! have is enough, and what they cannot see is not taken to be absent.

// Hazard of faults: S-14 what an account needs, named before anything is touched | , `target`

use std::path::Path;

use refloat_sandbox::{Instance, ServerKind, StartOptions};
use refloat_testkit::servers;

use crate::support::{BOTH, Desk, Run, ask, dump, finish, table, wide_table};

/// The server's URL for another account.
fn url_of(server: &Instance, user: &str) -> String {
    server.url().replace("root@", &format!("{user}@"))
}

/// `refloat load` as this account, into the databases that the dump names.
fn load_as(desk: &Desk, file: &Path, server: &Instance, user: &str, more: &[&str]) -> Run {
    let url = url_of(server, user);
    let mut args = vec!["load", file.to_str().unwrap(), "--to", &url];
    args.extend(more);
    finish(desk.refloat(args))
}

/// A new account with these privileges, each with its object.
fn account(server: &Instance, user: &str, grants: &[&str]) {
    ask(server, &format!("CREATE USER {user}@'%'"));
    for grant in grants {
        ask(server, &format!("GRANT {grant} TO {user}@'%'"));
    }
}

fn exists(server: &Instance, database: &str) -> bool {
    let sql =
        format!("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name='{database}'");
    ask(server, &sql) == "1"
}

const LOADER: &str = "SELECT, INSERT, CREATE, DROP, ALTER, INDEX, REFERENCES, TRIGGER, CREATE VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, EXECUTE";

/// A separate server with a binary log.
fn logging(kind: ServerKind) -> refloat_sandbox::Ephemeral {
    servers::start(
        &servers::quick(kind)
            .option("innodb_io_capacity", "200")
            .option("log_bin", "binlog")
            .option("server_id", "7"),
    )
}

#[test]
fn definers_that_the_account_may_not_name_are_refused_beforehand() {
    let programs = [
        "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS SELECT 1 AS `a` */;\n",
        "DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `tr` BEFORE UPDATE ON `items` FOR EACH ROW SET NEW.n = 1 */;;\nDELIMITER ;\n",
        "DELIMITER ;;\nCREATE DEFINER=`root`@`localhost` PROCEDURE `p`()\nBEGIN\n  SELECT 1;\nEND ;;\nDELIMITER ;\n",
        "DELIMITER ;;\n/*!50106 CREATE*/ /*!50117 DEFINER=`root`@`localhost`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 YEAR DO SELECT 1 */ ;;\nDELIMITER ;\n",
    ];
    for &kind in crate::support::kinds() {
        let server = servers::start(&servers::quick(kind));
        ask(&server, "SET GLOBAL log_bin_trust_function_creators = 1");
        let mut desk = Desk::new();
        for (number, program) in programs.iter().enumerate() {
            let user = format!("d{number}");
            account(&server, &user, &[]);
            desk.next();
            ask(
                &server,
                &format!("GRANT {LOADER} ON {}.* TO {user}@'%'", desk.db),
            );
            let text = dump(&format!("{}{program}", table("items", 600)));
            let file = desk.file("dump.sql", &text);
            let url = url_of(&server, &user);
            let run = finish(desk.load_command(&file, &url, &[]))
                .exits(3)
                .says("nothing was touched")
                .says("'root'@'localhost'");
            assert!(!exists(&server, &desk.db), "{kind}: it was touched");
            // The same account as the definer of its own programs.
            let renamed = text.replace("`root`@`localhost`", &format!("`{user}`@`%`"));
            let renamed = desk.file("renamed.sql", renamed);
            let loaded = finish(desk.load_command(&renamed, &url, &[])).exits(0);
            if kind.is_mariadb() {
                loaded
                    .says("first rows that were not compared")
                    .says("the account may not create temporary tables");
            }
            ask(&server, &format!("DROP DATABASE {}", desk.db));
            // The hint is sufficient, as far as the server has the account that it names.
            let grant = run
                .stderr
                .lines()
                .find_map(|line| line.strip_prefix("hint: GRANT"))
                .and_then(|line| line.split(';').next())
                .unwrap_or_else(|| panic!("no GRANT in {}", run.stderr));
            ask(&server, &format!("GRANT{grant}"));
            if !kind.is_mariadb() {
                ask(&server, &format!("GRANT SYSTEM_USER ON *.* TO {user}@'%'"));
                let gone = text.replace("`root`@`localhost`", "`gone`@`%`");
                let gone = desk.file("gone.sql", gone);
                ask(&server, &format!("GRANT SELECT ON mysql.* TO {user}@'%'"));
                finish(desk.load_command(&gone, &url, &[]))
                    .exits(3)
                    .says("ALLOW_NONEXISTENT_DEFINER");
                assert!(!exists(&server, &desk.db), "{kind}: it was touched");
            }
            finish(desk.load_command(&file, &url, &[])).exits(0);
        }
    }
}

#[test]
fn functions_and_triggers_that_a_binary_log_forbids_are_refused_beforehand() {
    let trigger = "DELIMITER ;;\nCREATE TRIGGER `tr` BEFORE UPDATE ON `items` FOR EACH ROW SET NEW.n = 1 ;;\nDELIMITER ;\n";
    let function = "DELIMITER ;;\nCREATE FUNCTION `f`() RETURNS int\n    DETERMINISTIC\nRETURN 1 ;;\nDELIMITER ;\n";
    let silent = "DELIMITER ;;\nCREATE FUNCTION `f`() RETURNS int\nRETURN 1 ;;\nDELIMITER ;\n";
    for kind in BOTH {
        let server = logging(kind);
        let mut desk = Desk::new();
        account(&server, "w", &[]);
        for (program, user, what) in [
            (trigger, "w", "triggers"),
            (function, "w", "functions"),
            (silent, "root", "DETERMINISTIC"),
        ] {
            desk.next();
            ask(
                &server,
                &format!("GRANT {LOADER} ON {}.* TO w@'%'", desk.db),
            );
            let file = desk.file(
                "dump.sql",
                dump(&format!("{}{program}", table("items", 600))),
            );
            let load = || finish(desk.load_command(&file, &url_of(&server, user), &[]));
            ask(&server, "SET GLOBAL log_bin_trust_function_creators = 0");
            load()
                .exits(3)
                .says("log_bin_trust_function_creators")
                .says(what);
            assert!(!exists(&server, &desk.db), "{kind}: it was touched");
            ask(&server, "SET GLOBAL log_bin_trust_function_creators = 1");
            let run = load().exits(0);
            if kind.is_mariadb() && user == "w" {
                run.says("first rows that were not compared")
                    .says("the account may not keep them out of it");
            }
        }
        // SUPER is trusted.
        desk.next();
        ask(&server, "SET GLOBAL log_bin_trust_function_creators = 0");
        let file = desk.file(
            "dump.sql",
            dump(&format!("{}{function}", table("items", 600))),
        );
        finish(desk.load_command(&file, &server.url(), &[])).exits(0);
    }
}

#[test]
fn rights_by_role_by_table_and_less_what_was_revoked() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind).option("innodb_io_capacity", "200"));
        let mut desk = Desk::new();
        // Through a role, on everything, including the privilege to change settings.
        let rights = if kind.is_mariadb() {
            "SUPER, BINLOG ADMIN"
        } else {
            "SYSTEM_VARIABLES_ADMIN"
        };
        ask(&server, "CREATE ROLE loader");
        ask(&server, &format!("GRANT {LOADER} ON *.* TO loader"));
        ask(&server, &format!("GRANT {rights} ON *.* TO loader"));
        account(&server, "r", &["loader"]);
        let file = desk.file("dump.sql", dump(&table("items", 600)));
        let url = url_of(&server, "r");
        // Granted, but not active.
        finish(desk.load_command(&file, &url, &[]))
            .exits(3)
            .says("lacks SELECT");
        ask(
            &server,
            if kind.is_mariadb() {
                "SET DEFAULT ROLE loader FOR r@'%'"
            } else {
                "SET DEFAULT ROLE loader TO r@'%'"
            },
        );
        finish(desk.load_command(&file, &url, &["--durability", "relaxed"]))
            .exits(0)
            .says("innodb_io_capacity")
            .never_says("lacks");

        // Per table: enough for a dump of that table, and for that table of a larger dump.
        desk.next();
        let db = desk.db.clone();
        ask(&server, &format!("CREATE DATABASE {db}"));
        account(
            &server,
            "t",
            &[&format!(
                "SELECT, INSERT, CREATE, DROP, ALTER, INDEX, REFERENCES ON {db}.items"
            )],
        );
        let two = format!("USE `{db}`;\n{}{}", table("items", 600), table("other", 20));
        let two = desk.file("two.sql", dump(&two));
        load_as(&desk, &two, &server, "t", &[])
            .exits(3)
            .says("lacks SELECT, INSERT, CREATE");
        assert_eq!(desk.tables(&server), 0, "{kind}: it was touched");
        load_as(&desk, &two, &server, "t", &["--tables", "items"]).exits(0);
        assert_eq!(desk.rows(&server, "items"), Some(600));

        // For --append, privileges on rows are enough.
        account(&server, "a", &[&format!("SELECT, INSERT ON {db}.items")]);
        ask(&server, &format!("DELETE FROM {db}.items"));
        load_as(
            &desk,
            &two,
            &server,
            "a",
            &["--tables", "items", "--append"],
        )
        .exits(0);
        assert_eq!(desk.rows(&server, "items"), Some(600));
        load_as(
            &desk,
            &two,
            &server,
            "a",
            &["--tables", "items", "--replace"],
        )
        .exits(3)
        .says("lacks CREATE");

        if !kind.is_mariadb() {
            ask(&server, "SET GLOBAL partial_revokes = ON");
            desk.next();
            account(&server, "v", &[&format!("{LOADER} ON *.*")]);
            ask(
                &server,
                &format!("REVOKE INSERT ON {}.* FROM v@'%'", desk.db),
            );
            let file = desk.file("dump.sql", dump(&table("items", 600)));
            finish(desk.load_command(&file, &url_of(&server, "v"), &[]))
                .exits(3)
                .says("lacks INSERT");
            desk.next();
            finish(desk.load_command(&file, &url_of(&server, "v"), &[])).exits(0);
        }
    }
}

#[test]
fn a_server_that_the_account_does_not_see_all_of_is_not_empty() {
    const FLUSHED: &str = "innodb_flush_log_at_trx_commit: 1 -> ";
    for kind in BOTH {
        let server = servers::start(&StartOptions::new(kind));
        let mut desk = Desk::new();
        ask(&server, "CREATE DATABASE hidden");
        ask(&server, "CREATE TABLE hidden.t (a int)");
        // It may change every setting, but sees nothing of the other database.
        let rights = if kind.is_mariadb() {
            "SUPER, BINLOG ADMIN ON *.*"
        } else {
            "SYSTEM_VARIABLES_ADMIN ON *.*"
        };
        let more = [
            ("blind", ""),
            ("names", "SHOW DATABASES ON *.*"),
            ("everything", "SELECT ON *.*"),
        ];
        // More than what settings are left alone for.
        let file = desk.file("dump.sql", dump(&wide_table("items", 3000)));
        for (user, grant) in more {
            desk.next();
            let on_database = format!("{LOADER} ON {}.*", desk.db);
            let mut grants = vec![rights, &on_database];
            grants.extend((!grant.is_empty()).then_some(grant));
            account(&server, user, &grants);
            let load = || finish(desk.load_command(&file, &url_of(&server, user), &[]));
            load()
                .exits(0)
                .says("nothing was changed on the server")
                .never_says(FLUSHED);
            ask(&server, &format!("DROP DATABASE {}", desk.db));
            if user == "everything" {
                // It also sees when there is nothing else.
                ask(&server, "DROP DATABASE hidden");
                load().exits(0).says(FLUSHED).says("all put back");
            }
        }
    }
}

#[test]
fn what_was_asked_of_the_settings_is_done_or_reported() {
    for kind in BOTH {
        let server = logging(kind);
        let mut desk = Desk::new();
        account(&server, "plain", &[&format!("{LOADER} ON *.*")]);
        let file = desk.file("dump.sql", dump(&table("items", 600)));
        let load = |desk: &Desk, user: &str, more: &[&str]| {
            finish(desk.load_command(&file, &url_of(&server, user), more))
        };
        // It cannot see whether anything reads the binary log, so the log cannot be switched off.
        load(&desk, "plain", &["--binlog", "off"])
            .exits(3)
            .says("--binlog off is not possible")
            .says("GRANT PROCESS");
        ask(&server, "GRANT PROCESS ON *.* TO plain@'%'");
        let run = load(&desk, "plain", &["--binlog", "off"])
            .exits(3)
            .says("--binlog off is not possible")
            .says("hint: GRANT ");
        load(&desk, "plain", &["--binlog", "off", "--plan"])
            .exits(3)
            .says("--binlog off is not possible");
        assert!(!exists(&server, &desk.db), "{kind}: it was touched");
        // Unless --binlog off is requested, the privilege is not missed.
        load(&desk, "plain", &["--durability", "keep"])
            .exits(0)
            .never_says("sql_log_bin");
        desk.next();
        for level in ["relaxed", "disposable"] {
            load(&desk, "plain", &["--durability", level])
                .exits(0)
                .says(&format!(
                    "innodb_io_capacity: not changed for --durability {level}: the account lacks "
                ));
            desk.next();
        }
        let run_json = load(&desk, "plain", &["--durability", "relaxed", "--json"]).exits(0);
        let last: serde_json::Value =
            serde_json::from_str(run_json.stdout.lines().last().unwrap()).unwrap();
        let skipped = last["outcome"]["summary"]["settings_skipped"]
            .as_array()
            .unwrap();
        assert!(!skipped.is_empty(), "{last}");
        assert!(run_json.stdout.contains("\"event\":\"warning\""));
        desk.next();
        let grant = run
            .stderr
            .lines()
            .find_map(|line| line.strip_prefix("hint: GRANT"))
            .and_then(|line| line.split(';').next())
            .unwrap();
        ask(&server, &format!("GRANT{grant}"));
        let position = |server: &Instance| {
            let sql = if kind.is_mariadb() {
                "SHOW MASTER STATUS"
            } else {
                "SHOW BINARY LOG STATUS"
            };
            ask(server, sql)
        };
        let before = position(&server);
        load(&desk, "plain", &["--binlog", "off", "--durability", "keep"]).exits(0);
        assert_eq!(position(&server), before, "{kind}: something was logged");
        assert_eq!(desk.rows(&server, "items"), Some(600));
    }
}

/// Rows are compared with no other right than the load's own.
#[test]
fn a_digest_needs_no_more_rights_than_the_load() {
    for kind in crate::support::BOTH {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        account(&server, "digester", &[]);
        let rights = "SELECT, INSERT, CREATE, DROP, ALTER, INDEX, REFERENCES";
        let grant = format!("GRANT {rights} ON {}.* TO digester@'%'", desk.db);
        ask(&server, &grant);
        let file = desk.file("dump.sql", dump(&table("items", 600)));
        let url = url_of(&server, "digester");
        finish(desk.load_command(&file, &url, &["--verify", "digest"]))
            .exits(0)
            .says("the SAME");
        assert_eq!(desk.rows(&server, "items"), Some(600));
    }
}

/// An account that cannot see the journal must not hear that nothing is left.
#[test]
fn settings_that_an_account_cannot_see_are_not_called_none() {
    let server = servers::start(&servers::quick(ServerKind::MariaDb118));
    account(&server, "blind", &[]);
    account(&server, "seer", &["SELECT ON *.*"]);
    let desk = Desk::new();
    for command in ["list", "revert"] {
        let settings = |user: &str| {
            let url = url_of(&server, user);
            finish(desk.refloat(["settings", command, "--to", &url]))
        };
        settings("blind")
            .exits(3)
            .says("cannot see whether settings are left")
            .never_says("no setting is left");
        settings("seer").exits(0).says("no setting is left");
    }
}

#[test]
fn what_mysql_would_refuse_after_rows_is_refused_before_them() {
    let server = servers::start(&servers::quick(ServerKind::MySql97));
    let desk = Desk::new();
    account(
        &server,
        "d",
        &[
            &format!("{LOADER} ON *.*"),
            "CREATE VIEW, SET_ANY_DEFINER, PROCESS ON *.*",
        ],
    );
    let text = format!(
        "CREATE TABLE spaced (a INT) /*!50100 TABLESPACE `nowhere` */ ENGINE=InnoDB;\n{}\
         CREATE DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW v AS SELECT 1 AS a;\n",
        table("items", 20)
    );
    let file = desk.file("dump.sql", dump(&text));
    finish(desk.load_command(&file, &url_of(&server, "d"), &[]))
        .exits(3)
        .says("lacks SYSTEM_USER, which programs of accounts that have it need: view v")
        .says("is in tablespace nowhere, which the server does not have");
    assert_eq!(desk.tables(&server), 0, "it was touched");
    ask(&server, "GRANT SYSTEM_USER ON *.* TO d@'%'");
    ask(
        &server,
        "CREATE TABLESPACE nowhere ADD DATAFILE 'nowhere.ibd'",
    );
    finish(desk.load_command(&file, &url_of(&server, "d"), &[])).exits(0);
}
