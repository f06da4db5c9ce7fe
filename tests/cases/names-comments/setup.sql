-- Names that end a comment, or begin a line of their own, where a tool writes them into one.
SET NAMES utf8mb4; SET sql_mode='';
CREATE DATABASE canary; CREATE TABLE canary.t (a INT PRIMARY KEY); INSERT INTO canary.t VALUES (1);
CREATE TABLE `*/ DROP TABLE canary.t; --` (a INT PRIMARY KEY, `*/ b` INT COMMENT '*/ DROP TABLE canary.t; /*') COMMENT = '*/ DROP TABLE canary.t; -- ';
INSERT INTO `*/ DROP TABLE canary.t; --` VALUES (1, 2);
CREATE TABLE `n
DROP TABLE canary.t;
--` (`c
DROP TABLE canary.t;
--` INT PRIMARY KEY); INSERT INTO `n
DROP TABLE canary.t;
--` VALUES (5), (6);
CREATE VIEW `v*/;
DROP TABLE canary.t; --` AS SELECT a FROM `*/ DROP TABLE canary.t; --`;
CREATE PROCEDURE `p*/
DROP TABLE canary.t; --`() SELECT '*/ DROP TABLE canary.t;';
CREATE TRIGGER `t*/
DROP TABLE canary.t; --` BEFORE INSERT ON `*/ DROP TABLE canary.t; --` FOR EACH ROW SET @a = '*/';
CREATE EVENT `e*/
DROP TABLE canary.t; --` ON SCHEDULE EVERY 1 YEAR STARTS '2035-01-01 00:00:00' DISABLE DO SELECT '*/';
CREATE DATABASE `x
DROP TABLE canary.t;#`;
CREATE TABLE `x
DROP TABLE canary.t;#`.`t
DROP TABLE canary.t;#` (a INT PRIMARY KEY); INSERT INTO `x
DROP TABLE canary.t;#`.`t
DROP TABLE canary.t;#` VALUES (3);
