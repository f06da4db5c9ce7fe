/*
 * An array-bound insert that a Galera node aborts is reported as stored; without Refloat.
 *
 * A transaction on one node inserts rows by one array-bound execution. One of them is also inserted by a transaction on another node. The other one
 * wins, so the first is aborted while its rows are being inserted. MariaDB 10.11 and 11.8 then answer the execution as if nothing had happened,
 * and what the connection writes next is committed alone. By plain INSERT the same abort is error 1213.
 *
 *     cc -o repeat repeat.c $(mariadb_config --include --libs)        (Debian: libmariadb-dev)
 *     ./repeat FIRST_PORT SECOND_PORT [ROUNDS]                        (two nodes of a cluster at 127.0.0.1, root without a password)
 */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 100000 };

static MYSQL *node(int port)
{
    MYSQL *mysql = mysql_init(NULL);
    if (!mysql_real_connect(mysql, "127.0.0.1", "root", NULL, NULL, port, NULL, CLIENT_MULTI_STATEMENTS)) {
        fprintf(stderr, "%s\n", mysql_error(mysql));
        exit(2);
    }
    return mysql;
}

/* The error of a statement, 0 if there was none. */
static unsigned int run(MYSQL *mysql, const char *statement)
{
    mysql_query(mysql, statement);
    return mysql_errno(mysql);
}

static long count(MYSQL *mysql, const char *statement)
{
    if (run(mysql, statement) != 0) {
        fprintf(stderr, "%s: %s\n", statement, mysql_error(mysql));
        exit(2);
    }
    MYSQL_RES *result = mysql_store_result(mysql);
    long found = atol(mysql_fetch_row(result)[0]);
    mysql_free_result(result);
    return found;
}

/* Inserts rows 1 to ROWS in one execution; returns its error. */
static unsigned int insert_array(MYSQL *mysql)
{
    static int ids[ROWS];
    for (int at = 0; at < ROWS; at++)
        ids[at] = at + 1;
    unsigned int rows = ROWS;
    MYSQL_BIND bind;
    memset(&bind, 0, sizeof bind);
    bind.buffer_type = MYSQL_TYPE_LONG;
    bind.buffer = ids;
    MYSQL_STMT *statement = mysql_stmt_init(mysql);
    mysql_stmt_prepare(statement, "INSERT INTO repeat_it.t VALUES (?)", -1);
    mysql_stmt_attr_set(statement, STMT_ATTR_ARRAY_SIZE, &rows);
    mysql_stmt_bind_param(statement, &bind);
    mysql_stmt_execute(statement);
    unsigned int error = mysql_stmt_errno(statement);
    mysql_stmt_close(statement);
    return error;
}

/* The same rows by one INSERT. */
static unsigned int insert_text(MYSQL *mysql)
{
    static char text[16 * ROWS];
    char *end = text + sprintf(text, "INSERT INTO repeat_it.t VALUES (1)");
    for (int at = 2; at <= ROWS; at++)
        end += sprintf(end, ",(%d)", at);
    return run(mysql, text);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: repeat FIRST_PORT SECOND_PORT [ROUNDS]\n");
        return 2;
    }
    int rounds = argc > 3 ? atoi(argv[3]) : 20, wrong = 0;
    MYSQL *first = node(atoi(argv[1])), *second = node(atoi(argv[2]));
    run(first, "CREATE DATABASE IF NOT EXISTS repeat_it");
    run(first, "SET SESSION wsrep_sync_wait = 15");
    run(second, "SET SESSION wsrep_sync_wait = 15");
    for (int round = 0; round < 2 * rounds; round++) {
        int as_array = round % 2 == 0;
        run(first, "CREATE OR REPLACE TABLE repeat_it.t (id INT PRIMARY KEY) ENGINE=InnoDB");
        count(second, "SELECT COUNT(*) FROM repeat_it.t");
        run(first, "START TRANSACTION");
        pid_t other = fork();
        if (other == 0) {
            /* Later each time, until the rows are all in. */
            usleep(10000 * (round / 2 % 10));
            MYSQL *mysql = node(atoi(argv[2]));
            const char *text = "INSERT INTO repeat_it.t VALUES (1)";
            _exit(run(mysql, text) != 0);
        }
        unsigned int error = as_array ? insert_array(first) : insert_text(first);
        int status;
        waitpid(other, &status, 0);
        unsigned int after = run(first, "INSERT INTO repeat_it.t VALUES (1000000)");
        unsigned int commit = run(first, "COMMIT");
        run(first, "ROLLBACK");
        long there = count(first, "SELECT COUNT(*) FROM repeat_it.t WHERE id < 1000000");
        long later = count(first, "SELECT COUNT(*) FROM repeat_it.t WHERE id = 1000000");
        int lost = error == 0 && after == 0 && commit == 0 && there < ROWS;
        wrong += lost;
        printf("%s: execution %u, next insert %u, commit %u: %ld of %d rows there, next one %s%s\n",
               as_array ? "array" : "text", error, after, commit, there, ROWS, later ? "there" : "not there",
               lost ? "  <-- LOST WITHOUT AN ERROR" : "");
    }
    printf("%d of %d rounds lost rows without an error\n", wrong, 2 * rounds);
    return wrong != 0;
}
