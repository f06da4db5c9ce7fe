-- phpMyAdmin SQL Dump
DELIMITER //
SET @m = '';
SET SESSION sql_mode = @m;
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(30));
INSERT INTO t VALUES (1,'x'),(2,'semi;colon');
INSERT INTO t VALUES (3,'z');
//
DELIMITER ;
CREATE TABLE u (a INT);
